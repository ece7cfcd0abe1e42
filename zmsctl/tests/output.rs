//! What becomes of an answer that cannot be written.
#![cfg(target_os = "linux")]

use std::{
    fs::File,
    process::{Command, Output, Stdio},
};

fn completions(stdout: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zmsctl"));
    command.args(["completions", "bash"]).stdout(stdout).stderr(Stdio::piped());
    command.spawn().expect("starts").wait_with_output().expect("ends")
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = File::options().write(true).open("/dev/full").expect("the device is there");
    let ended = completions(full.into());
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cannot write"), "{ended:?}");
}

#[test]
fn a_reader_that_went_away_is_none() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = completions(writer.into());
    assert!(ended.status.success(), "{ended:?}");
}
