//! What is left of a panic that was caught.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// The words of a panic. Ends what it carried, which may panic once more: that must not get past whoever caught the
/// first one.
pub(crate) fn words_of(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let words = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let words = words.to_owned();
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Nobody can tell whether this one would end in peace; it is kept for ever.
        Box::leak(again);
    }
    words
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    struct Again;

    impl Drop for Again {
        fn drop(&mut self) {
            panic_any(Self);
        }
    }

    fn words(panics: impl FnOnce()) -> String {
        words_of(catch_unwind(AssertUnwindSafe(panics)).unwrap_err())
    }

    #[test]
    fn words_are_found_whatever_their_type() {
        assert_eq!(words(|| panic!("plain")), "plain");
        assert_eq!(words(|| panic!("number {}", 7)), "number 7");
        assert_eq!(words(|| panic_any(7)), "no message");
    }

    #[test]
    fn a_panic_that_panics_again_goes_no_further() {
        let panic: Box<dyn Any + Send> = Box::new(Again);
        assert_eq!(words_of(panic), "no message");
    }
}
