//! A real browser without a window, driven by its DevTools protocol over two pipes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::{Bounded, installed, spawned};

/// A browser that takes longer to answer hangs; with much beside it, it takes some seconds.
const HANGS_AFTER: Duration = Duration::from_secs(90);

/// The browser on Debian and elsewhere.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page.
pub(crate) struct Browser {
    _browser: Bounded,
    commands: ChildStdin,
    answers: Receiver<Value>,
    calls: u64,
    session: String,
    /// What the page said that nobody asked for.
    events: Vec<Value>,
    _state: tempfile::TempDir,
}

impl Browser {
    /// A browser with an empty page; none, with a word about it, where there is no browser.
    pub(crate) fn start() -> Option<Browser> {
        let Some(name) = NAMES.into_iter().find(|name| installed(name)) else {
            eprintln!("skipped: no chromium here");
            return None;
        };
        let state = tempfile::tempdir().expect("a folder");
        // The protocol is spoken on descriptors 3 and 4.
        let script = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", name, "--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", state.path().display()));
        // Else it leaves a folder where all others have theirs.
        command.env("HOME", state.path()).env("TMPDIR", state.path());
        let mut browser = spawned(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let commands = browser.child().stdin.take().expect("a pipe");
        let output = browser.child().stdout.take().expect("a pipe");
        let (said, answers) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the protocol is JSON");
                if said.send(message).is_err() {
                    break;
                }
            }
        });
        let (session, events) = (String::new(), Vec::new());
        let mut browser = Browser {
            _browser: browser,
            commands,
            answers,
            calls: 0,
            session,
            events,
            _state: state,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let to = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", to);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Runtime", "Log", "Network", "Page"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol, and waits for its answer.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let text = format!("{message}\0");
        self.commands.write_all(text.as_bytes()).expect("the browser listens");
        loop {
            let message = self.next();
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn next(&self) -> Value {
        self.answers.recv_timeout(HANGS_AFTER).expect("the browser answers")
    }

    /// Opens a file, and waits until its scripts have run.
    pub(crate) fn visit(&mut self, page: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        while !self.loaded() {
            let event = self.next();
            self.events.push(event);
        }
        assert_eq!(self.eval("document.documentElement.dataset.ready"), "", "its scripts ran");
    }

    /// Whether the file is there whole. The empty page before it may say so of itself, late.
    fn loaded(&self) -> bool {
        let mut events = self.events.iter();
        let file = |event: &Value| {
            let url = event["params"]["frame"]["url"].as_str();
            event["method"] == "Page.frameNavigated"
                && url.is_some_and(|url| url.starts_with("file:"))
        };
        events.any(file) && events.any(|event| event["method"] == "Page.loadEventFired")
    }

    /// What an expression is in the page.
    #[track_caller]
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Draws every chart, as printing does, and leaves open what is opened for it.
    pub(crate) fn draw_all(&mut self) {
        self.eval(
            "dispatchEvent(new Event('beforeprint')), \
             document.querySelectorAll('details').forEach((details) => delete details.dataset.printed), \
             dispatchEvent(new Event('afterprint')), true",
        );
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key, "code": key}));
        }
    }

    /// What the console said that is no information, exceptions, and what was asked of a network.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut told = Vec::new();
        for event in &self.events {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => told.push(event.to_string()),
                "Runtime.consoleAPICalled" if params["type"] != "log" => {
                    told.push(event.to_string())
                }
                "Log.entryAdded" if params["entry"]["level"] != "info" => {
                    told.push(event.to_string())
                }
                "Page.javascriptDialogOpening" => told.push(event.to_string()),
                "Network.requestWillBeSent" if params["type"] != "Document" => {
                    told.push(params["request"]["url"].to_string());
                }
                _ => {}
            }
        }
        told
    }
}
