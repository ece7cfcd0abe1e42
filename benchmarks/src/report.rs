//! What people and programs read of a comparison.

use std::{fmt::Write, fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    BenchArgs, Failure,
    frame::Contest,
    settings,
    statistics::{Range, median},
    stopwatch::Sample,
    works::{Incumbent, Metric, OURS, Stage, Standard, Work},
};

/// All that was measured.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) standings: Vec<Standing>,
    pub(crate) comparisons: Vec<Comparison>,
}

/// Runs of one side on one work, and what it should reach by itself.
pub(crate) struct Standing {
    pub(crate) work: &'static Work,
    /// The side.
    pub(crate) first: &'static str,
    pub(crate) runs: Vec<Sample>,
}

impl Standing {
    /// Its standards: ours alone has any.
    fn standards(&self) -> &'static [Standard] {
        if self.first == OURS { self.work.standards } else { &[] }
    }

    /// One line for each: the median, and whether it meets the goal.
    pub(crate) fn lines(&self) -> Result<Vec<String>, Failure> {
        let line = |standard: &Standard| {
            let range = self.range(standard)?;
            Ok(format!(
                "work={} side={OURS} {}={:.3} spread={:.3}..{:.3} goal={} {}",
                self.work.name,
                standard.name,
                range.median,
                range.min,
                range.max,
                standard.goal,
                standard.goal.verdict(range),
            ))
        };
        self.standards().iter().map(line).collect()
    }

    fn range(&self, standard: &Standard) -> Result<Range, Failure> {
        Range::of(self.runs.iter().map(standard.of)).ok_or_else(|| "nothing was measured".into())
    }

    fn to_json(&self) -> Result<Value, Failure> {
        let figure = |standard: &Standard| {
            let range = self.range(standard)?;
            Ok(json!({
                "name": standard.name,
                "median": range.median,
                "spread": [range.min, range.max],
                "goal": standard.goal.to_string(),
                "verdict": standard.goal.verdict(range),
            }))
        };
        let figures: Result<Vec<Value>, Failure> = self.standards().iter().map(figure).collect();
        Ok(json!({
            "work": self.work.name,
            "side": self.first,
            "standards": figures?,
            "runs": self.runs.iter().map(|run| run.to_json()).collect::<Vec<_>>(),
        }))
    }
}

/// Runs of two sides on one work, in turns.
pub(crate) struct Comparison {
    pub(crate) work: &'static Work,
    pub(crate) incumbent: &'static Incumbent,
    /// The side in front: ours, or the incumbent itself.
    pub(crate) first: &'static str,
    /// Neighbouring runs: the side in front, and the incumbent.
    pub(crate) runs: Vec<(Sample, Sample)>,
}

impl Comparison {
    fn ratio(&self) -> Result<Range, Failure> {
        let metric = self.work.metric;
        Range::of_ratios(self.runs.iter().map(|(first, second)| (metric.of(first), metric.of(second))))
            .ok_or_else(|| "nothing was measured".into())
    }

    /// CPU time of one message, ours by the incumbent's. It swings less than rates do on a busy machine.
    fn cpu_ratio(&self) -> Result<Range, Failure> {
        Range::of_ratios(self.runs.iter().map(|(first, second)| (first.cpu_ns(), second.cpu_ns())))
            .ok_or_else(|| "nothing was measured".into())
    }

    /// `ok` or `short`; of an incumbent against itself there is nothing to say.
    fn verdict(&self) -> Result<&'static str, Failure> {
        let ratio = self.ratio()?;
        Ok(if self.first == OURS { self.incumbent.goal.verdict(ratio) } else { "noise" })
    }

    /// The one line that sums it up: medians of both sides, and the ratio of neighbouring runs.
    pub(crate) fn line(&self) -> Result<String, Failure> {
        let ratio = self.ratio()?;
        let (first, second): (Vec<Sample>, Vec<Sample>) = self.runs.iter().copied().unzip();
        Ok(format!(
            "work={work}/{name} {front}={} {front}_cpu={} incumbent={} incumbent_cpu={} \
             cpu_ratio={:.3}{cpu_goal} ratio={:.3} spread={:.3}..{:.3} goal={} {}",
            figure(self.work.metric, &first),
            nanos(middle(&first, Sample::cpu_ns)),
            figure(self.work.metric, &second),
            nanos(middle(&second, Sample::cpu_ns)),
            self.cpu_ratio()?.median,
            ratio.median,
            ratio.min,
            ratio.max,
            self.incumbent.goal,
            self.verdict()?,
            work = self.work.name,
            name = self.incumbent.name,
            front = if self.first == OURS { OURS } else { "again" },
            cpu_goal = self.cpu_goal()?,
        ))
    }

    fn cpu_goal(&self) -> Result<String, Failure> {
        let Some(goal) = self.incumbent.cpu_goal else { return Ok(String::new()) };
        let verdict = if self.first == OURS { goal.verdict(self.cpu_ratio()?) } else { "noise" };
        Ok(format!("(goal={goal} {verdict})"))
    }

    fn to_json(&self) -> Result<Value, Failure> {
        let ratio = self.ratio()?;
        let runs = self
            .runs
            .iter()
            .map(|(first, second)| json!({"first": first.to_json(), "incumbent": second.to_json()}));
        Ok(json!({
            "work": self.work.name,
            "first": self.first,
            "incumbent": self.incumbent.name,
            "settings": settings_in_words(self.work),
            "ratio": ratio.median,
            "spread": [ratio.min, ratio.max],
            "cpu_ratio": self.cpu_ratio()?.median,
            "cpu_goal": self.incumbent.cpu_goal.map(|goal| goal.to_string()),
            "goal": self.incumbent.goal.to_string(),
            "verdict": self.verdict()?,
            "runs": runs.collect::<Vec<_>>(),
        }))
    }
}

/// All that was measured, with the machine that it was measured on.
pub(crate) fn to_json(results: &Results, arguments: &BenchArgs) -> Result<Value, Failure> {
    let standings: Result<Vec<_>, _> = results.standings.iter().map(Standing::to_json).collect();
    let comparisons: Result<Vec<_>, _> = results.comparisons.iter().map(Comparison::to_json).collect();
    Ok(json!({
        "machine": machine(),
        "cluster": cluster_in_words(arguments),
        "runs": arguments.runs,
        "standings": standings?,
        "comparisons": comparisons?,
    }))
}

/// The works with their incumbents and goals.
pub(crate) fn list(works: &[Work]) -> String {
    let mut text = String::new();
    for work in works {
        let metric = match work.metric {
            Metric::Rate => "messages per second",
            Metric::Latency => "median latency",
        };
        _ = writeln!(text, "{}: {}", work.name, work.what);
        _ = writeln!(text, "  {} messages, compared by {metric}", work.messages);
        for standard in work.standards {
            _ = writeln!(text, "  by itself: {} {}", standard.name, standard.goal);
        }
        for incumbent in work.incumbents {
            let cpu = incumbent.cpu_goal.map(|goal| format!(", CPU {goal}")).unwrap_or_default();
            _ = writeln!(text, "  {} {}{cpu}: {}", incumbent.name, incumbent.goal, incumbent.what);
        }
    }
    text
}

/// What stands above the runs of a work.
pub(crate) fn heading(contest: &Contest, arguments: &BenchArgs) -> String {
    let work = contest.work;
    let mut text = format!("\n# {}: {}", work.name, work.what);
    if work.stage != Stage::Nowhere {
        _ = write!(text, ", on {}", cluster_in_words(arguments));
    }
    text.push('\n');
    for incumbent in &contest.incumbents {
        _ = writeln!(text, "# against {}: {}", incumbent.name, incumbent.what);
    }
    for (incumbent, failure) in &contest.left_out {
        _ = writeln!(text, "# without {}: {failure}", incumbent.name);
    }
    for line in settings_in_words(work) {
        _ = writeln!(text, "# all sides: {line}");
    }
    if let (Some(note), Ok(messages)) = (work.note, work.messages(arguments.messages, arguments.mock)) {
        _ = writeln!(text, "# {}", note(messages));
    }
    text
}

/// One run, raw.
pub(crate) fn run_line(run: u32, side: &str, sample: &Sample) -> String {
    let number = if run == 0 { "warm-up".to_owned() } else { run.to_string() };
    let mut line =
        format!("run={number} side={side} rate={:.0}/s cpu={:.0}ns", sample.rate(), sample.cpu_ns());
    if let Some(latency) = sample.latency {
        _ = write!(line, " p50={} p99={}", micros(latency.p50), micros(latency.p99));
    }
    if sample.effort.is_some() {
        _ = write!(line, " of_the_ideal={:.3} of_nominal={:.3}", sample.of_the_ideal(), sample.of_nominal());
    }
    if let Some(allocations) = sample.allocations {
        _ = write!(line, " allocations={allocations}");
    }
    if sample.peak.is_some() {
        _ = write!(line, " rss={:.0}MiB", sample.peak_mib());
    }
    line
}

fn settings_in_words(work: &Work) -> Vec<String> {
    work.settings.iter().map(|(role, settings)| format!("{role} {}", settings::in_words(settings))).collect()
}

fn cluster_in_words(arguments: &BenchArgs) -> &'static str {
    if arguments.mock { "librdkafka's mock cluster (consumers with fetch.wait.max.ms=5)" } else { "Kafka" }
}

/// The median of what sides are compared by, with its unit.
fn figure(metric: Metric, samples: &[Sample]) -> String {
    let value = middle(samples, |sample| metric.of(sample));
    match metric {
        Metric::Rate if samples.iter().all(|sample| sample.effort.is_some()) => {
            let (ideal, nominal) =
                (middle(samples, Sample::of_the_ideal), middle(samples, Sample::of_nominal));
            format!("{value:.0}/s(of_the_ideal={ideal:.3},of_nominal={nominal:.3})")
        }
        Metric::Rate => format!("{value:.0}/s"),
        Metric::Latency => {
            let p99 = middle(samples, |sample| sample.latency.map_or(f64::NAN, |l| l.p99.as_secs_f64()));
            format!("{:.0}us(p99={:.0}us)", value * 1e6, p99 * 1e6)
        }
    }
}

fn middle(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    median(&samples.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

fn nanos(value: f64) -> String {
    format!("{value:.0}ns")
}

fn micros(duration: Duration) -> String {
    format!("{}us", duration.as_micros())
}

/// Cores, processor and kernel: numbers of different machines do not compare.
fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo").lines().find_map(|line| {
        line.strip_prefix("model name").map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned())
    });
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "processor": model.unwrap_or_default(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}
