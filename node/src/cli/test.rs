//! `orbit test F…`: runs the cases of workflows with mocked tasks and skipped time.

use std::path::PathBuf;
use std::sync::Arc;

use workflow::case::{self, Case, Checks, Report, duration};
use workflow::definition::Definition;
use workflow::document::Fault;

use super::print::Output;
use super::source::{self, Pair};
use super::{Error, counted, junit};

/// Run the test cases of workflows with mocked tasks and skipped time.
#[derive(Debug, clap::Args)]
pub(crate) struct Test {
    /// Documents, their cases files (.test.yaml) or directories of them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only cases with this in their name.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Show every event with its simulated time.
    #[arg(short, long)]
    verbose: bool,
    /// Write the results as JUnit XML as well.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// The results of one cases file.
pub(crate) struct Suite {
    pub(crate) file: String,
    pub(crate) reports: Vec<Report>,
    /// Why none of its cases could be run.
    pub(crate) broken: Option<Broken>,
}

/// Why a file cannot be used, and its faults as they were shown.
type Unusable = (Box<Error>, Vec<String>);

/// Cases that cannot be run.
pub(crate) struct Broken {
    pub(crate) sentence: String,
    /// Each with its place.
    pub(crate) faults: Vec<String>,
}

impl Suite {
    fn broken(file: String, error: &Error, faults: Vec<String>) -> Self {
        Self { file, reports: Vec::new(), broken: Some(Broken { sentence: error.to_string(), faults }) }
    }
}

impl Test {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        let (mut errors, mut suites) = (Vec::new(), Vec::new());
        let mut broken = |file: String, (error, faults): Unusable, suites: &mut Vec<Suite>| {
            suites.push(Suite::broken(file, &error, faults));
            errors.push(*error);
        };
        let mut pairs = Vec::new();
        for path in &self.files {
            match source::pairs(path) {
                Ok(found) => pairs.extend(found),
                Err(error) => broken(path.display().to_string(), (Box::new(error.into()), Vec::new()), &mut suites),
            }
        }
        for (at, pair) in pairs.iter().enumerate() {
            // What was named twice is run once.
            if pairs[..at].contains(pair) {
                continue;
            }
            let file = pair.cases.display().to_string();
            match self.run_pair(pair, &file, output) {
                Ok(reports) => suites.push(Suite { file, reports, broken: None }),
                Err(refused) => broken(file, refused, &mut suites),
            }
        }
        let all = || suites.iter().flat_map(|suite: &Suite| &suite.reports);
        let (count, failed) = (all().count(), all().filter(|report| !report.passed()).count());
        if count > 0 {
            let documents = suites.iter().filter(|suite| !suite.reports.is_empty()).count();
            let (cases, documents) = (counted(count, "case"), counted(documents, "document"));
            output.line(format_args!("{cases} of {documents}: {} passed, {failed} failed", count - failed));
        }
        if let Some(file) = &self.junit
            && let Err(error) = junit::write(file, &suites)
        {
            errors.push(Error::Output { file: file.display().to_string(), error: error.to_string() });
        }
        if failed > 0 {
            errors.push(Error::CasesFailed { failed, cases: counted(count, "case") });
        }
        if count == 0 && errors.is_empty() {
            errors.push(Error::NoCases(match &self.only {
                Some(name) => format!("no case has {name:?} in its name; `--only` takes a name or a part of one"),
                None => "there is no case in what was named; cases stand in files that end in .test.yaml".to_owned(),
            }));
        }
        errors
    }

    fn run_pair(&self, pair: &Pair, file: &str, output: &mut Output) -> Result<Vec<Report>, Unusable> {
        let unusable = |error: source::Error| (Box::new(error.into()), Vec::new());
        let definitions = match source::compile(&pair.document).map_err(unusable)? {
            Ok(compiled) => compiled.into_iter().map(|compiled| Arc::new(compiled.definition)).collect::<Vec<_>>(),
            Err(faults) => return Err(refused(&pair.document.display().to_string(), faults.list(), output)),
        };
        let cases = match source::read(&pair.cases).map_err(unusable)? {
            Ok(text) => case::parse_for(&text, &definitions).map_err(|faults| refused(file, faults.list(), output))?,
            Err(fault) => return Err(refused(file, &[fault], output)),
        };
        let wanted = |case: &&Case| self.only.as_ref().is_none_or(|part| case.name.contains(part.as_str()));
        Ok(cases.iter().filter(wanted).map(|case| self.run_case(case, &definitions, file, output)).collect())
    }

    fn run_case(&self, case: &Case, definitions: &[Arc<Definition>], file: &str, output: &mut Output) -> Report {
        let report = case::run(case, definitions, Checks::Expectations);
        let word = if report.passed() { "ok  " } else { "FAIL" };
        let (events, time) = (counted(report.events, "event"), duration(report.simulated_ms));
        output.line(format_args!("{word} {file}: {} ({events}, {time})", report.name));
        if self.verbose {
            for moment in &report.timeline {
                let gap = if moment.values.is_empty() { "" } else { "  " };
                output.line(format_args!("{moment}{gap}{}", moment.values));
            }
        }
        for difference in &report.differences {
            output.line(format_args!("     {}", difference.to_string().replace('\n', "\n     ")));
        }
        for note in &report.notes {
            output.line(format_args!("     note: {note}"));
        }
        report
    }
}

/// Shows the faults of a file.
fn refused(file: &str, faults: &[Fault], output: &mut Output) -> Unusable {
    let lines: Vec<_> = faults.iter().map(|fault| format!("{file}:{fault}")).collect();
    lines.iter().for_each(|line| output.line(line));
    (Box::new(Error::Faults { faults: counted(faults.len(), "fault"), files: file.to_owned() }), lines)
}
