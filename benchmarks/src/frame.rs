//! Runs the sides of a comparison in turns, each in a process of its own.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    BenchArgs, Failure, child,
    cluster::Cluster,
    job::Job,
    registry::Registry,
    report::{self, Comparison},
    stopwatch::Sample,
    works::{self, Incumbent, OURS, Work},
};

/// No measurement takes longer than this unless something is wrong.
const LIMIT: Duration = Duration::from_secs(300);

/// Measures what the arguments ask for, and prints it.
pub(crate) fn run(arguments: &BenchArgs) -> Result<(), Failure> {
    let pairs = selected(arguments)?;
    let mut bed = Bed::start(arguments)?;
    let mut comparisons = Vec::new();
    for (work, incumbent) in pairs {
        print!("{}", report::heading(work, incumbent, arguments));
        let comparison = bed.compare(work, incumbent)?;
        println!("{}", comparison.line()?);
        comparisons.push(comparison);
    }
    if let Some(file) = &arguments.json {
        std::fs::write(file, format!("{:#}\n", report::to_json(&comparisons, arguments)?))?;
    }
    Ok(())
}

/// The works and incumbents asked for. Whatever cannot be measured is said before anything is.
fn selected(arguments: &BenchArgs) -> Result<Vec<(&'static Work, &'static Incumbent)>, Failure> {
    let works: Vec<&Work> = match arguments.name.as_deref().unwrap_or("all") {
        "all" => works::ALL.iter().collect(),
        name => vec![Work::named(name)?],
    };
    let mut pairs = Vec::new();
    for work in works {
        work.messages(arguments.messages, arguments.mock)?;
        let wanted =
            |incumbent: &&Incumbent| arguments.incumbent.as_ref().is_none_or(|name| name == incumbent.name);
        pairs.extend(work.incumbents.iter().filter(wanted).map(|incumbent| (work, incumbent)));
    }
    if pairs.is_empty() {
        return Err("no such incumbent; `bench list` shows them".into());
    }
    Ok(pairs)
}

/// Where measurements are made.
struct Bed<'a> {
    arguments: &'a BenchArgs,
    /// What our side asks; incumbents do without.
    registry: Option<Registry>,
    cluster: Cluster,
    /// Topics filled so far, by work.
    filled: BTreeMap<&'static str, String>,
    /// Groups given out so far.
    groups: u32,
}

impl<'a> Bed<'a> {
    fn start(arguments: &'a BenchArgs) -> Result<Self, Failure> {
        let cluster = if arguments.mock { Cluster::start_mock()? } else { Cluster::start_kafka()? };
        let registry = if arguments.aa { None } else { Some(Registry::start(&cluster.bootstrap())?) };
        Ok(Self { arguments, registry, cluster, filled: BTreeMap::new(), groups: 0 })
    }

    fn compare(&mut self, work: &'static Work, incumbent: &'static Incumbent) -> Result<Comparison, Failure> {
        let first = if self.arguments.aa { incumbent.name } else { OURS };
        let mut runs = Vec::new();
        for run in 0..=self.arguments.runs {
            let pair = (self.measure(work, run, first)?, self.measure(work, run, incumbent.name)?);
            // The first run warms up caches and the broker, and is not counted.
            if run > 0 {
                runs.push(pair);
            }
        }
        Ok(Comparison { work, incumbent, first, runs })
    }

    fn measure(&mut self, work: &'static Work, run: u32, side: &str) -> Result<Sample, Failure> {
        let job = self.job(work, side)?;
        let process = child::spawn(["measure", &job.to_json().to_string()])?;
        let output = child::output_within(process, LIMIT)?;
        let sample = Sample::from_json(&output)?;
        println!("{}", report::run_line(run, side, &sample));
        Ok(sample)
    }

    /// A measurement with everything it needs in place.
    fn job(&mut self, work: &'static Work, side: &str) -> Result<Job, Failure> {
        self.groups += 1;
        let mut job = Job {
            work: work.name.to_owned(),
            side: side.to_owned(),
            bootstrap: self.cluster.bootstrap(),
            registry: self.registry.as_ref().map(Registry::connect_string),
            topic: String::new(),
            group: format!("bench-{}-{}", work.name, self.groups),
            messages: work.messages(self.arguments.messages, self.arguments.mock)?,
            mock: self.arguments.mock,
        };
        job.topic = self.topic(work, &job)?;
        if let Some(registry) = &self.registry {
            registry.add_group(&job.group, &job.topic)?;
        }
        Ok(job)
    }

    /// The topic that a job works on: the filled one of its work, or a fresh one.
    fn topic(&mut self, work: &'static Work, job: &Job) -> Result<String, Failure> {
        if let Some(topic) = self.filled.get(work.name) {
            return Ok(topic.clone());
        }
        let topic = self.cluster.create_topic(work.name, work.partitions)?;
        if let Some(registry) = &self.registry {
            registry.add_topic(&topic, work.profile)?;
        }
        if work.filled {
            works::fill(&Job { topic: topic.clone(), ..job.clone() }, work.partitions)?;
            self.filled.insert(work.name, topic.clone());
        }
        Ok(topic)
    }
}
