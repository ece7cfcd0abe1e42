//! Finds the tools, fetches the servers once, and gates the tests that need them.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;

use super::error::{Attempting, ServiceError};

/// Directories of runs whose process is gone are kept this long, for whoever wants to read a log.
const KEEP_RUNS: Duration = Duration::from_secs(3600);

/// Whether real servers can be run on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Java and Maven are there.
    Ready,
    /// The named program is missing.
    Missing(&'static str),
}

/// Looks for the programs that run the servers.
pub fn availability() -> Availability {
    find(&["java", "mvn"])
}

/// Call first in each test that needs real servers, and return from the test on `false`.
///
/// Answers `false` and says why when Java or Maven is missing, so that the rest of the suite is of use on any machine.
///
/// # Panics
/// Instead of answering `false` if the environment variable `ZMS_REQUIRE_SERVICES` is `1`: continuous integration
/// must not skip.
pub fn require_services() -> bool {
    require(&availability())
}

/// As [`require_services`], for tests that run Java programs of their own from source, which takes a JDK.
///
/// # Panics
/// As [`require_services`].
pub fn require_services_and_jdk() -> bool {
    require(&find(&["java", "mvn", "javac"]))
}

fn find(tools: &[&'static str]) -> Availability {
    match tools.iter().find(|tool| !runs(tool)) {
        Some(tool) => Availability::Missing(tool),
        None => Availability::Ready,
    }
}

fn require(availability: &Availability) -> bool {
    let Availability::Missing(tool) = availability else { return true };
    let required = std::env::var("ZMS_REQUIRE_SERVICES").is_ok_and(|value| value == "1");
    assert!(!required, "ZMS_REQUIRE_SERVICES=1, but `{tool}` is not on the PATH");
    let thread = std::thread::current();
    // Past the capture of test output: a skipped test is to be seen.
    let _ = writeln!(
        std::io::stderr(),
        "skipped {}: it needs real servers, and `{tool}` is not on the PATH",
        thread.name().unwrap_or("a test")
    );
    false
}

/// `target/services`: jars, data and logs.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("services")
}

/// A new directory for one server of this process.
pub(crate) fn run_directory(server: &str) -> Result<PathBuf, ServiceError> {
    static SWEPT: OnceLock<()> = OnceLock::new();
    SWEPT.get_or_init(sweep);
    let runs = root().join("run").join(std::process::id().to_string());
    fs::create_dir_all(&runs).attempting(format_args!("create {}", runs.display()))?;
    for number in 0_u32.. {
        let path = runs.join(format!("{server}-{number}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            result => return result.attempting(format_args!("create {}", path.display())).map(|()| path),
        }
    }
    unreachable!("a free number is found first")
}

/// The class path of the servers and of Java's Kafka client, fetched on first use and after each change of the pom.
///
/// Test processes run in parallel: the first one fetches under a file lock, the others wait for it.
///
/// # Errors
/// When Maven is missing or fails.
pub fn java_class_path() -> Result<String, ServiceError> {
    static FETCHED: OnceLock<()> = OnceLock::new();
    let lib = jar_directory("lib");
    if FETCHED.get().is_none() {
        fetch(&Path::new(env!("CARGO_MANIFEST_DIR")).join("services/pom.xml"), &lib)?;
        let _ = FETCHED.set(());
    }
    Ok(format!("{}/*", lib.display()))
}

/// The class path of what another pom names, fetched like that of the servers and kept beside it under `name`.
///
/// # Errors
/// When Maven is missing or fails.
pub fn jars(pom: &Path, name: &str) -> Result<String, ServiceError> {
    let lib = jar_directory(name);
    fetch(pom, &lib)?;
    Ok(format!("{}/*", lib.display()))
}

/// Where jars and classes are kept under `name`.
pub fn jar_directory(name: &str) -> PathBuf {
    root().join(name)
}

fn fetch(pom: &Path, lib: &Path) -> Result<(), ServiceError> {
    let wanted = fs::read(pom).attempting(format_args!("read {}", pom.display()))?;
    fs::create_dir_all(root()).attempting("create target/services")?;
    let lock = File::create(root().join("fetch.lock")).attempting("create target/services/fetch.lock")?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).attempting("lock target/services/fetch.lock")?;

    // The stamp is the pom itself, written last: a fetch that was interrupted is done again.
    let stamp = lib.join("pom.xml");
    if fs::read(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    if lib.exists() {
        fs::remove_dir_all(lib).attempting(format_args!("remove {}", lib.display()))?;
    }
    copy_dependencies(pom, lib)?;
    fs::write(&stamp, wanted).attempting(format_args!("write {}", stamp.display()))
}

fn copy_dependencies(pom: &Path, lib: &Path) -> Result<(), ServiceError> {
    let output = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(pom)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", lib.display()))
        .arg("-DincludeScope=runtime")
        .stdin(Stdio::null())
        .output();
    match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(ServiceError::MissingTool("mvn")),
        Err(source) => Err(ServiceError::Io { what: "run mvn".into(), source }),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            Err(ServiceError::Fetch(String::from_utf8_lossy(&text).into_owned()))
        }
    }
}

fn runs(tool: &str) -> bool {
    let status = Command::new(tool)
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Removes what earlier, ended test processes left behind. Best effort: two processes may sweep at once.
fn sweep() {
    let Ok(entries) = fs::read_dir(root().join("run")) else { return };
    for entry in entries.flatten() {
        let owner_gone = !Path::new("/proc").join(entry.file_name()).exists();
        let modified =
            entry.metadata().and_then(|data| data.modified()).unwrap_or_else(|_| SystemTime::now());
        if owner_gone && modified.elapsed().is_ok_and(|age| age > KEEP_RUNS) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
