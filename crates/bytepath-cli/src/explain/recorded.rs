//! What was seen of a command or a process, shown and written.

use std::path::Path;
use std::time::SystemTime;

use bytepath::machine::Machine;
use bytepath_explain::trace::{self, TraceError, Tracing};
use bytepath_explain::{Looked, Watch, Whom};
use bytepath_lab::facts;
use bytepath_lab::program::Program;
use bytepath_report::{
    Arm, Experiment, Record, Sample, SchemaName, Traced, Unit, json, short_name,
};

use crate::output::{Output, is_stdout};
use crate::said;
use crate::shown::{Named, Shown};
use crate::style::style;

/// Looks at what is started from now on, to say afterwards where its time went.
pub(crate) struct Explaining {
    shown: Shown,
    exports: Vec<Output>,
    json: Option<Output>,
    alone: bool,
    watch: Option<Watching>,
    tracing: Option<Tracing>,
    /// Why nothing is traced.
    refused: Option<TraceError>,
}

/// Samples are being taken.
struct Watching {
    whom: Whom,
    began: SystemTime,
    watch: Watch,
}

impl Explaining {
    /// Sees that results can be written.
    pub(crate) fn new(shown: Shown, json: Option<&Path>) -> anyhow::Result<Explaining> {
        shown.check(&[("--json", json)])?;
        let exports = shown.open()?;
        let alone = json.is_some_and(is_stdout);
        let json = json.map(Output::open).transpose()?;
        let tracing = shown.trace.map(Tracing::start).transpose()?;
        Ok(Explaining { shown, exports, json, alone, watch: None, tracing, refused: None })
    }

    /// From now on: of this process and all that this thread starts, or of one that runs.
    pub(crate) fn begin(&mut self, whom: Whom) {
        if let Some(tracing) = &mut self.tracing {
            let begun = match whom {
                Whom::Started => tracing.arm(),
                Whom::Process(pid) => tracing.follow(pid),
            };
            self.refused = begun.err();
            return;
        }
        let began = SystemTime::now();
        let watch = Watch::start(whom, &[], &self.shown.settings());
        self.watch = Some(Watching { whom, began, watch });
    }

    /// Why there will be nothing to say, if so.
    pub(crate) fn sees_nothing(&self) -> Option<&str> {
        if let Some(refused) = &self.refused {
            return Some(refused.why());
        }
        self.watch.as_ref()?.watch.takes_no_samples()
    }

    /// What was seen of `name`, to be shown and written.
    pub(crate) fn end(mut self, name: &str) -> Seen {
        let mut seen = Seen::default();
        if let Some(tracing) = self.tracing.take() {
            match self.traced(tracing, name) {
                Ok(traced) => {
                    seen.text = (!self.alone).then(|| trace::shown::text(&traced, style()));
                    let made = json(&traced).map(String::into_bytes).map_err(Into::into);
                    seen.files.extend(self.json.map(|output| (output, made)));
                }
                Err(error) => seen.failed = Some(error),
            }
            return seen;
        }
        let Some(Watching { whom, began, watch }) = self.watch else { return seen };
        let Looked { explained, profile } = watch.stop();
        let named = Named { name, explained: &explained, profile: &profile };
        seen.text = (!self.alone).then(|| self.shown.text(&named));
        let made = self.shown.made(&[named]).into_iter();
        seen.files.extend(self.exports.into_iter().zip(made.map(|made| Ok(made?.1))));
        let what = match whom {
            Whom::Started => "run once and looked at meanwhile",
            Whom::Process(_) => "which ran already, looked at for a while",
        };
        seen.files.extend(self.json.map(|output| {
            let record = record(name, &format!("{name}, {what}"), began, &explained);
            (output, record.to_json().map(String::into_bytes).map_err(Into::into))
        }));
        seen
    }

    fn traced(&mut self, tracing: Tracing, name: &str) -> anyhow::Result<Traced> {
        if let Some(refused) = self.refused.take() {
            return Err(refused.into());
        }
        tracing.disarm();
        Ok(tracing.finish(name)?)
    }
}

/// What was seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// For a terminal, where nothing else is to be alone there.
    pub(crate) text: Option<String>,
    /// What is not written yet.
    files: Vec<(Output, anyhow::Result<Vec<u8>>)>,
    /// Why there is nothing.
    failed: Option<anyhow::Error>,
}

impl Seen {
    /// Writes the files that are like this; one that fails does not keep the others from it, and is told.
    pub(crate) fn write(&mut self, which: impl Fn(&Output) -> bool) -> anyhow::Result<()> {
        let failed = self.failed.take().map_or(Ok(()), Err);
        let written = self.files.extract_if(.., |(output, _)| which(output));
        written.map(|(output, made)| output.write(&made?)).fold(failed, said::also)
    }
}

/// A record of one arm, so that everything that reads records reads this too.
fn record(
    name: &str,
    definition: &str,
    began: SystemTime,
    explained: &bytepath_report::Explained,
) -> Record {
    let started = humantime::format_rfc3339_seconds(began).to_string();
    let seconds = explained.seconds;
    let sample = Sample { value: seconds, seconds, ..Sample::default() };
    Record {
        schema: SchemaName::V1,
        id: format!("explain-{started}-{:04x}", std::process::id() & 0xffff),
        started,
        bytepath: Program::this().map(Program::build).unwrap_or_default(),
        machine: facts::of(Machine::this()),
        experiment: Experiment {
            name: "explain".to_owned(),
            question: "where does the time go?".to_owned(),
            definition: definition.to_owned(),
        },
        settings: Default::default(),
        blocks: 1,
        trusted: true,
        untrusted_why: None,
        control: None,
        arms: vec![Arm {
            samples: vec![sample],
            median: Some(seconds),
            explained: Some(explained.clone()),
            ..Arm::new(short_name(name), Unit::Seconds)
        }],
        notes: vec!["the time was measured while samples were taken".to_owned()],
    }
}
