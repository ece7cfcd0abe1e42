//! Growing, jittered delays between attempts.
