//! Results of cases as JUnit XML, for tools that show test results.

use std::fs::File;
use std::io;
use std::path::Path;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::test::{Broken, Suite};

/// One suite per cases file. One whose cases could not be run has an error in their place: a reader that looks at
/// nothing else must not take it for a file without failures.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(file: &Path, suites: &[Suite]) -> io::Result<()> {
    let mut report = Report::new("orbit test");
    for suite in suites {
        let mut xml = TestSuite::new(&suite.file);
        for case in &suite.reports {
            let mut status = TestCaseStatus::success();
            if !case.passed() {
                let differences: Vec<_> = case.differences.iter().map(ToString::to_string).collect();
                status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(&case.differences[0].what).set_description(differences.join("\n"));
            }
            let mut test = TestCase::new(&case.name, status);
            test.set_classname(&suite.file);
            xml.add_test_case(test);
        }
        if let Some(Broken { sentence, faults }) = &suite.broken {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            let what = if faults.is_empty() { sentence.clone() } else { faults.join("\n") };
            status.set_message(sentence).set_description(what);
            let mut test = TestCase::new("cannot be run", status);
            test.set_classname(&suite.file);
            xml.add_test_case(test);
        }
        report.add_test_suite(xml);
    }
    report.serialize(File::create(file)?).map_err(io::Error::other)
}
