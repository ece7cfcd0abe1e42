//! zmsctl
fn main() {}
