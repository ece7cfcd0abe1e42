//! How fast messages are handled, and how many at a time.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    ops::RangeInclusive,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use zms_core::{
    gradient::{Gradient, Sample},
    rate::{Bucket, Rate},
};

/// Asked before each call of a handler, and told of its end. Costs nothing where there is neither a rate limit nor a
/// number of workers to find out.
pub(in super::super) struct Governor {
    /// Times are counted from here.
    began: Instant,
    bucket: Option<Mutex<Bucket>>,
    gradient: Option<Mutex<Gradient>>,
    running: AtomicU32,
}

/// A call that runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    began: Duration,
    in_flight: u32,
}

impl Governor {
    pub(in super::super) fn new(rate: Option<Rate>, adaptive: Option<&RangeInclusive<NonZeroUsize>>) -> Self {
        let now = Duration::ZERO;
        let narrow = |workers: NonZeroUsize| NonZeroU32::try_from(workers).unwrap_or(NonZeroU32::MAX);
        Self {
            began: Instant::now(),
            bucket: rate.map(|rate| Mutex::new(Bucket::new(rate, now))),
            gradient: adaptive.map(|workers| {
                Mutex::new(Gradient::new(narrow(*workers.start()), narrow(*workers.end()), now))
            }),
            running: AtomicU32::new(0),
        }
    }

    /// How many of `most` messages may be handled now.
    ///
    /// # Errors
    /// None; when it is worth asking again.
    pub(super) fn permits(&self, most: usize) -> Result<usize, Instant> {
        let Some(bucket) = &self.bucket else { return Ok(most) };
        let wanted = NonZeroU32::new(u32::try_from(most).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN);
        match lock(bucket).take_up_to(self.began.elapsed(), wanted) {
            Ok(permits) => Ok(permits.get() as usize),
            Err(wait) => Err(Instant::now() + wait),
        }
    }

    /// Whether the number of workers is found out here.
    pub(in super::super) fn is_adaptive(&self) -> bool {
        self.gradient.is_some()
    }

    pub(super) fn begin(&self) -> Option<Call> {
        self.gradient.as_ref()?;
        let in_flight = self.running.fetch_add(1, Relaxed) + 1;
        Some(Call { began: self.began.elapsed(), in_flight })
    }

    /// A call has ended. The new number of workers, if it changes.
    pub(super) fn end(&self, call: Call) -> Option<NonZeroUsize> {
        self.running.fetch_sub(1, Relaxed);
        let Call { began, in_flight } = call;
        let sample = Sample { began, ended: self.began.elapsed(), in_flight };
        let limit = lock(self.gradient.as_ref()?).sample(sample)?;
        NonZeroUsize::new(limit as usize)
    }
}

// Plain locks: held for some arithmetic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
