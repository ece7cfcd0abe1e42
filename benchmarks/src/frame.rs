//! Runs the sides of a comparison in turns, each in a process of its own.

use std::{collections::BTreeMap, iter, time::Duration};

use crate::{
    BenchArgs, Failure, child,
    cluster::Cluster,
    job::Job,
    registry::Registry,
    report::{self, Comparison, Results, Standing},
    stopwatch::Sample,
    works::{self, Incumbent, OURS, Preparation, Stage, Work},
};

/// No measurement takes longer than this unless something is wrong.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// Measures what the arguments ask for, and prints it.
pub(crate) fn run(arguments: &BenchArgs) -> Result<(), Failure> {
    let contests = selected(arguments)?;
    let mut bed = Bed { arguments, servers: None, filled: BTreeMap::new(), groups: 0 };
    let mut results = Results::default();
    for contest in contests {
        print!("{}", report::heading(&contest, arguments));
        let rounds = bed.rounds(&contest)?;
        let (standing, comparisons) = contest.results(&rounds);
        for line in standing.lines()? {
            println!("{line}");
        }
        for comparison in &comparisons {
            println!("{}", comparison.line()?);
        }
        results.standings.push(standing);
        results.comparisons.extend(comparisons);
    }
    if let Some(file) = &arguments.json {
        std::fs::write(file, format!("{:#}\n", report::to_json(&results, arguments)?))?;
    }
    Ok(())
}

/// The sides that take turns on one work.
pub(crate) struct Contest {
    pub(crate) work: &'static Work,
    /// Whom the others are compared with: ours, or an incumbent with itself.
    pub(crate) first: &'static str,
    pub(crate) incumbents: Vec<&'static Incumbent>,
    /// Incumbents that cannot be measured here, and why.
    pub(crate) left_out: Vec<(&'static Incumbent, Failure)>,
}

impl Contest {
    fn sides(&self) -> impl Iterator<Item = &'static str> {
        iter::once(self.first).chain(self.incumbents.iter().map(|incumbent| incumbent.name))
    }

    /// Of rounds with one sample for each side.
    fn results(&self, rounds: &[Vec<Sample>]) -> (Standing, Vec<Comparison>) {
        let (work, first) = (self.work, self.first);
        let standing = Standing { work, first, runs: rounds.iter().map(|round| round[0]).collect() };
        let comparisons = self.incumbents.iter().zip(1..).map(|(incumbent, column)| Comparison {
            work,
            incumbent,
            first,
            runs: rounds.iter().map(|round| (round[0], round[column])).collect(),
        });
        (standing, comparisons.collect())
    }
}

/// The works and incumbents asked for. Whatever cannot be measured is said before anything is.
fn selected(arguments: &BenchArgs) -> Result<Vec<Contest>, Failure> {
    let works: Vec<&Work> = match arguments.name.as_deref().unwrap_or("all") {
        "all" => works::ALL.iter().collect(),
        name => vec![Work::named(name)?],
    };
    let mut contests = Vec::new();
    for work in works {
        work.messages(arguments.messages, arguments.mock)?;
        let wanted =
            |incumbent: &&Incumbent| arguments.incumbent.as_ref().is_none_or(|name| name == incumbent.name);
        let wanted: Vec<&Incumbent> = work.incumbents.iter().filter(wanted).collect();
        if arguments.aa {
            contests.extend(wanted.into_iter().map(|incumbent| contest(arguments, work, vec![incumbent])));
        } else if arguments.incumbent.is_none() || !wanted.is_empty() {
            contests.push(contest(arguments, work, wanted));
        }
    }
    if contests.is_empty() {
        return Err("no such incumbent; `bench list` shows them".into());
    }
    Ok(contests)
}

fn contest(arguments: &BenchArgs, work: &'static Work, wanted: Vec<&'static Incumbent>) -> Contest {
    let preparation = Preparation { mock: arguments.mock };
    let (mut incumbents, mut left_out) = (Vec::new(), Vec::new());
    for incumbent in wanted {
        match incumbent.prepare.map_or(Ok(()), |prepare| prepare(&preparation)) {
            Ok(()) => incumbents.push(incumbent),
            Err(failure) => left_out.push((incumbent, failure)),
        }
    }
    let first = match incumbents.first() {
        Some(incumbent) if arguments.aa => incumbent.name,
        _ => OURS,
    };
    Contest { work, first, incumbents, left_out }
}

/// Where measurements are made.
struct Bed<'a> {
    arguments: &'a BenchArgs,
    /// Started for the first work that needs them.
    servers: Option<Servers>,
    /// Topics filled so far, by work.
    filled: BTreeMap<&'static str, String>,
    /// Groups given out so far.
    groups: u32,
}

struct Servers {
    registry: Registry,
    cluster: Cluster,
}

impl Servers {
    fn start(arguments: &BenchArgs) -> Result<Self, Failure> {
        let cluster = if arguments.mock { Cluster::start_mock()? } else { Cluster::start_kafka()? };
        Ok(Self { registry: Registry::start(&cluster.bootstrap())?, cluster })
    }
}

impl Bed<'_> {
    /// Round after round, one sample of each side.
    fn rounds(&mut self, contest: &Contest) -> Result<Vec<Vec<Sample>>, Failure> {
        let mut rounds = Vec::new();
        for run in 0..=self.arguments.runs {
            let round: Result<Vec<Sample>, Failure> =
                contest.sides().map(|side| self.measure(contest.work, run, side)).collect();
            let round = round?;
            // The first round warms up caches and the broker, and is not counted.
            if run > 0 {
                rounds.push(round);
            }
        }
        Ok(rounds)
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
            bootstrap: String::new(),
            registry: None,
            topic: String::new(),
            group: format!("bench-{}-{}", work.name, self.groups),
            messages: work.messages(self.arguments.messages, self.arguments.mock)?,
            mock: self.arguments.mock,
            stuck: Duration::from_secs(self.arguments.stuck),
        };
        match work.stage {
            Stage::Nowhere => {}
            Stage::Fresh { partitions } => {
                self.connect(&mut job)?;
                job.topic = self.create_topic(work, partitions)?;
                self.add_group(&job)?;
            }
            Stage::Filled { partitions, keys } => {
                self.connect(&mut job)?;
                job.topic = match self.filled.get(work.name) {
                    Some(topic) => topic.clone(),
                    None => self.create_topic(work, partitions)?,
                };
                if self.filled.insert(work.name, job.topic.clone()).is_none() {
                    works::fill(&job, partitions, keys)?;
                }
                self.add_group(&job)?;
            }
        }
        Ok(job)
    }

    fn servers(&mut self) -> Result<&mut Servers, Failure> {
        if self.servers.is_none() {
            self.servers = Some(Servers::start(self.arguments)?);
        }
        self.servers.as_mut().ok_or_else(|| "no servers".into())
    }

    fn connect(&mut self, job: &mut Job) -> Result<(), Failure> {
        let servers = self.servers()?;
        job.bootstrap = servers.cluster.bootstrap();
        job.registry = Some(servers.registry.connect_string());
        Ok(())
    }

    fn create_topic(&mut self, work: &Work, partitions: i32) -> Result<String, Failure> {
        let servers = self.servers()?;
        let topic = servers.cluster.create_topic(work.name, partitions)?;
        servers.registry.add_topic(&topic, work.profile)?;
        Ok(topic)
    }

    fn add_group(&mut self, job: &Job) -> Result<(), Failure> {
        self.servers()?.registry.add_group(&job.group, &job.topic)
    }
}
