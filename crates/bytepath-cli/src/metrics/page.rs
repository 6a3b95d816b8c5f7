//! The text: families of samples, as Prometheus' exposition format has them.
//! https://prometheus.io/docs/instrumenting/exposition_formats/

use std::fmt::{Display, Write as _};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::figures::Figures;

/// What is the same on every page of a job.
pub(super) struct Page {
    /// `job="…",command="…"`: files in one folder of a collector must not have samples of the same
    /// labels, so the job has the name of the file.
    labels: String,
    started_s: f64,
    began: Instant,
}

/// What every page begins with.
pub(super) const BEGINS: &[u8] = b"# HELP bytepath_job_info ";

impl Page {
    pub(super) fn of(command: &str, path: &Path) -> Page {
        let job = path.file_stem().unwrap_or_default().to_string_lossy();
        let labels = format!("job=\"{}\",command=\"{}\"", escaped(&job), escaped(command));
        Page { labels, started_s: unix_s(), began: Instant::now() }
    }

    /// All that is known; the exit code once there is one.
    pub(super) fn text(&self, figures: &Figures, code: Option<u16>) -> String {
        let mut text = Text { text: String::with_capacity(4096), labels: &self.labels };
        let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
        text.gauge("job_info", "The job; its value is always 1.", [(version, 1)]);
        text.one_gauge("job_start_time_seconds", "When the job began.", self.started_s);
        text.one_gauge(
            "job_last_update_time_seconds",
            "When this was written; a job that ended without a word leaves it behind.",
            unix_s(),
        );
        text.one_gauge(
            "job_duration_seconds",
            "How long the job has been running, or ran.",
            self.began.elapsed().as_secs_f64(),
        );
        text.one_gauge(
            "job_running",
            "1 while the job runs, 0 once it ended.",
            u8::from(code.is_none()),
        );
        if let Some(code) = code {
            text.one_gauge("job_exit_code", "How the job ended; 128 and more by a signal.", code);
        }
        moved(&mut text, figures);
        pipeline(&mut text, figures);
        text.text
    }
}

fn moved(text: &mut Text<'_>, figures: &Figures) {
    let route = |(name, bytes): &(&str, u64)| (format!("route=\"{}\"", escaped(name)), *bytes);
    let none = [("none", 0)];
    let routes = if figures.routes.is_empty() { &none } else { figures.routes.as_slice() };
    if !figures.is_moved_unknown {
        text.counter("moved_bytes_total", "Bytes moved, by route.", routes.iter().map(route));
    }
    let counts = [
        ("calls_total", "System calls made to move bytes.", figures.calls),
        ("waits_total", "Times that a mover could not go on and waited.", figures.waits),
        ("files_total", "Files copied.", figures.files),
        ("lines_total", "Lines moved.", figures.lines),
    ];
    for (name, help, value) in counts {
        text.counter(name, help, value.map(|value| (String::new(), value)));
    }
    let gauges = [
        (
            "expected_bytes",
            "All that there is to move, as far as it is known.",
            figures.expected_bytes,
        ),
        ("skipped_bytes", "What of that is left as it is.", figures.skipped_bytes),
        ("durable_bytes", "Bytes known to be on the device.", figures.durable_bytes),
    ];
    for (name, help, value) in gauges {
        text.gauge(name, help, value.map(|value| (String::new(), value)));
    }
    let outputs = figures.outputs.iter().enumerate().map(|(place, (name, behind))| {
        (format!("output=\"{place}\",name=\"{}\"", escaped(name)), *behind)
    });
    text.gauge("output_behind_bytes", "How far an output is behind the input.", outputs);
}

fn pipeline(text: &mut Text<'_>, figures: &Figures) {
    let stages = || {
        figures.stages.iter().zip(1..).map(|(stage, number)| {
            (format!("stage=\"{number}\",program=\"{}\"", escaped(&stage.program)), stage)
        })
    };
    let cpu = stages().map(|(labels, stage)| (labels, stage.cpu_seconds));
    text.counter("stage_cpu_seconds_total", "CPU time of a program.", cpu);
    let of = |which: fn((u64, u64)) -> u64| {
        stages()
            .filter_map(move |(labels, stage)| Some((labels, which(stage.read_and_written_bytes?))))
    };
    text.counter(
        "stage_read_bytes_total",
        "What a program asked read(2) for and got, as last seen.",
        of(|both| both.0),
    );
    text.counter(
        "stage_written_bytes_total",
        "What a program gave to write(2), as last seen.",
        of(|both| both.1),
    );
    let pipes = || {
        figures
            .pipes
            .iter()
            .map(|pipe| (format!("from=\"{}\",to=\"{}\"", pipe.from, pipe.to), pipe))
    };
    let through = pipes().filter_map(|(labels, pipe)| Some((labels, pipe.moved_bytes?)));
    text.counter("pipe_moved_bytes_total", "Bytes that went through a pipe.", through);
    // One that was there too short to be looked at told neither.
    let seen = || pipes().filter(|(_, pipe)| pipe.holds_bytes > 0);
    let fill = seen().map(|(labels, pipe)| (labels, pipe.fill_bytes));
    text.gauge("pipe_fill_bytes", "What waits in a pipe.", fill);
    let holds = seen().map(|(labels, pipe)| (labels, pipe.holds_bytes));
    text.gauge("pipe_capacity_bytes", "What a pipe can hold.", holds);
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

struct Text<'a> {
    text: String,
    labels: &'a str,
}

impl Text<'_> {
    fn counter<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, V)>,
    ) {
        self.family((name, "counter", help), samples);
    }

    fn gauge<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, V)>,
    ) {
        self.family((name, "gauge", help), samples);
    }

    fn one_gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauge(name, help, [(String::new(), value)]);
    }

    /// Nothing for a family without samples.
    fn family<V: Display>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        samples: impl IntoIterator<Item = (String, V)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "# HELP bytepath_{name} {help}\n# TYPE bytepath_{name} {kind}");
        for (labels, value) in samples {
            let comma = if labels.is_empty() { "" } else { "," };
            let _ =
                writeln!(self.text, "bytepath_{name}{{{}{comma}{labels}}} {value}", self.labels);
        }
    }
}

/// A label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{PipeFigures, StageFigures};

    #[test]
    fn labels_hold_any_name() {
        let page = Page::of("tee", Path::new("/tmp/a \"b\"\n.prom"));
        let outputs = vec![("c\\d".to_owned(), 7)];
        let text = page.text(&Figures { outputs, ..Figures::default() }, None);
        let wanted = "bytepath_output_behind_bytes{job=\"a \\\"b\\\"\\n\",command=\"tee\",\
                      output=\"0\",name=\"c\\\\d\"} 7\n";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("job_running{") && !text.contains("exit_code"), "{text}");
        assert!(
            page.text(&Figures::default(), Some(3))
                .contains("exit_code{job=\"a \\\"b\\\"\\n\",command=\"tee\"} 3\n")
        );
    }

    /// The page on metrics tells of each family, and of no other but those of `fleet cp`.
    #[test]
    fn every_metric_is_told_of_with_its_type_and_labels() {
        let told = include_str!("../../../../docs/seeing.md");
        let rows = told.lines().filter_map(|line| line.strip_prefix("| `bytepath_"));
        let rows: Vec<Vec<&str>> = rows
            .map(|row| row.split('|').map(|cell| cell.trim().trim_end_matches('`')).collect())
            .collect();
        let stages =
            vec![StageFigures { read_and_written_bytes: Some((1, 1)), ..Default::default() }];
        let pipes =
            vec![PipeFigures { moved_bytes: Some(1), holds_bytes: 1, ..Default::default() }];
        let all = Figures {
            expected_bytes: Some(1),
            skipped_bytes: Some(1),
            durable_bytes: Some(1),
            calls: Some(1),
            waits: Some(1),
            files: Some(1),
            lines: Some(1),
            outputs: vec![("a".to_owned(), 1)],
            stages,
            pipes,
            ..Figures::default()
        };
        let page = Page::of("tee", Path::new("a.prom")).text(&all, Some(0));
        let families = page.lines().filter_map(|line| line.strip_prefix("# TYPE bytepath_"));
        let mut names = Vec::new();
        for (name, kind) in families.filter_map(|line| line.split_once(' ')) {
            let row = rows.iter().find(|row| row[0] == name);
            let row = row.unwrap_or_else(|| panic!("{name} is not told of"));
            assert_eq!(row[1], kind, "{name}");
            let sample = format!("bytepath_{name}{{job=\"a\",command=\"tee\"");
            let sample = page.lines().find_map(|line| line.strip_prefix(&*sample)).expect("one");
            let (labels, _) = sample.rsplit_once('}').expect("its end");
            let labels: Vec<&str> =
                labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
            assert_eq!(row[3].replace('`', ""), labels.join(", "), "{name}");
            names.push(name);
        }
        let others = rows.iter().map(|row| row[0]).filter(|name| !names.contains(name));
        assert_eq!(others.collect::<Vec<_>>(), ["done_ratio", "failed_entries", "workers"]);
    }
}
