//! Collected breaches of one promise.

/// How many are told in words; the rest is counted.
const EXAMPLES: usize = 5;

/// Counts breaches and keeps the first few.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    count: u64,
    examples: Vec<String>,
}

impl Violations {
    /// Notes a breach.
    pub fn add(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(example());
        }
    }

    /// `Ok` if there was none.
    ///
    /// # Errors
    /// The count and the examples.
    pub fn verdict(&self) -> Result<(), String> {
        if self.count == 0 {
            return Ok(());
        }
        Err(format!("{} times\n  {}", self.count, self.examples.join("\n  ")))
    }
}
