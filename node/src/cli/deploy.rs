//! `orbit deploy F…`: registers workflows, children first.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::RawValue;
use workflow::document::Compiled;

use super::order::children_first;
use super::print::{Form, Output};
use super::remote::{Asks, Remote};
use super::{Error, counted, source};
use crate::client::answers::RegisteredWorkflow;
use crate::client::{self, Answer, Call, Client, Harm};

/// Register workflows, children first. Each file is taken whole or not at all.
#[derive(Debug, clap::Args)]
pub(crate) struct Deploy {
    /// Documents (.yaml, .yml, .json); cases files are passed over.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

/// A file without faults.
struct File {
    name: String,
    path: PathBuf,
    compiled: Vec<Compiled>,
}

/// What became of several documents.
#[derive(Serialize)]
struct Registered {
    workflows: Vec<Box<RawValue>>,
}

impl Asks for Deploy {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let files = children_first(self.compile(output)?, |file| {
            file.compiled.iter().map(|compiled| &compiled.definition).collect()
        });
        let mut answers = Vec::new();
        for file in &files {
            let answer = self.register(file, client, output).await?;
            if self.remote.output == Form::Table {
                print(file, &answer, output)?;
            }
            answers.push(answer);
        }
        match (self.remote.output, answers.as_slice()) {
            (Form::Table, _) => {}
            (form, [answer]) => self.remote.show_text(form, &answer.text, output),
            (form, answers) => {
                let mut workflows = Vec::new();
                for answer in answers {
                    workflows.extend(documents(answer)?);
                }
                let text = serde_json::to_string(&Registered { workflows });
                let text = text.map_err(|error| Error::System(error.to_string()))?;
                self.remote.show_text(form, &text, output);
            }
        }
        Ok(())
    }
}

impl Deploy {
    /// Nothing is registered while anything has a fault.
    fn compile(&self, output: &mut Output) -> Result<Vec<File>, Error> {
        let (mut files, mut faults, mut faulty) = (Vec::new(), 0, 0);
        for path in &self.files {
            let name = path.display().to_string();
            // `deploy *.yaml` means the documents among them.
            if source::is_cases(path) {
                output.note(format_args!("{name}: passed over, for cases are not deployed"));
                continue;
            }
            match source::compile(path)? {
                Ok(compiled) => files.push(File { name, path: path.clone(), compiled }),
                Err(found) => {
                    (faults, faulty) = (faults + found.list().len(), faulty + 1);
                    for fault in found.list() {
                        output.line(format_args!("{name}:{fault}"));
                    }
                }
            }
        }
        if faults > 0 {
            return Err(Error::Faults { faults: counted(faults, "fault"), files: counted(faulty, "file") });
        }
        if files.is_empty() {
            return Err(Error::OnlyCases);
        }
        Ok(files)
    }

    async fn register(&self, file: &File, client: &Client, output: &mut Output) -> Result<Answer, Error> {
        let text = match source::read(&file.path)? {
            Ok(text) => text,
            Err(fault) => return Err(Error::Json { from: file.name.clone(), why: fault.to_string() }),
        };
        let json = file.path.extension().is_some_and(|ending| ending == "json");
        let media_type = if json { "application/json" } else { "application/yaml" };
        // Definitions are immutable: registering the same one again changes nothing.
        let call = Call::post(["v1", "workflows"], Harm::None).body(media_type, text);
        let answered = client.send(&call).await;
        if let Err(client::Error::Refused(refusal)) = &answered
            && self.remote.output == Form::Table
        {
            for fault in refusal.faults() {
                output.line(fault.shown(&file.name));
            }
        }
        answered.map_err(|error| match error {
            // Its faults are shown with the name of the file.
            client::Error::Refused(mut refusal) if self.remote.output == Form::Table => {
                refusal.message = format!("{}: {}", file.name, refusal.message);
                refusal.details = serde_json::Value::Null;
                client::Error::Refused(refusal).into()
            }
            other => other.into(),
        })
    }
}

/// What a node says of each document of a source.
fn documents(answer: &Answer) -> Result<Vec<Box<RawValue>>, client::Error> {
    #[derive(serde::Deserialize)]
    struct Several {
        workflows: Vec<Box<RawValue>>,
    }
    match answer.read::<Several>() {
        Ok(several) => Ok(several.workflows),
        Err(_) => Ok(vec![answer.read()?]),
    }
}

fn print(file: &File, answer: &Answer, output: &mut Output) -> Result<(), Error> {
    for document in documents(answer)? {
        let read = serde_json::from_str(document.get());
        let registered: RegisteredWorkflow =
            read.map_err(|error| client::Error::NotUnderstood { why: error.to_string() })?;
        let RegisteredWorkflow { name, version, definition_hash, created, warnings } = registered;
        let what = if created { "registered" } else { "was there already" };
        output.line(format_args!("{}: {name} {version} {definition_hash} {what}", file.name));
        for warning in warnings {
            output.line(format_args!("{}: warning: {warning}", file.name));
        }
    }
    Ok(())
}
