//! What holds sockets back.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::change::commands;
use super::{Change, Examined, Here, bytes};

/// Fewer connections than this that wait to be taken are dropped under a burst. The default since 5.4.
const BACKLOG_WANTED: u64 = 4096;
/// A window that fills 10 Gbit/s over 3 ms.
const WINDOW_WANTED: u64 = 4 << 20;
/// What is received and sent, with the largest windows that most kernels have.
const WINDOWS: [(&str, u64); 2] =
    [("proc/sys/net/ipv4/tcp_rmem", 6 << 20), ("proc/sys/net/ipv4/tcp_wmem", 4 << 20)];

pub(super) fn examine(here: &Here<'_>) -> Vec<Examined> {
    vec![backlog(here), reuse(here), window(here), segmentation(here)]
}

fn backlog(here: &Here<'_>) -> Examined {
    let (name, file) = ("somaxconn", "proc/sys/net/core/somaxconn");
    match here.number::<u64>(file) {
        None => Examined::unknown(name, format!("/{file} cannot be read")),
        Some(most) if most >= BACKLOG_WANTED => Examined::good(
            name,
            most.to_string(),
            "bursts of connections wait instead of being dropped",
        ),
        Some(most) => Examined::poor(
            name,
            most.to_string(),
            "of a burst of connections, those beyond are dropped and tried again a second later",
        )
        .by(format!("sysctl -w net.core.somaxconn={BACKLOG_WANTED}"))
        .changed_by(here.change(file, BACKLOG_WANTED)),
    }
}

fn reuse(here: &Here<'_>) -> Examined {
    let (name, file) = ("tcp-tw-reuse", "proc/sys/net/ipv4/tcp_tw_reuse");
    match here.text(file).as_deref() {
        None => Examined::unknown(name, format!("/{file} cannot be read")),
        Some("0") => Examined::poor(
            name,
            "0",
            "a port rests for a minute after each connection: who opens one a request runs out of them \
             at 470 a second",
        )
        .by("sysctl -w net.ipv4.tcp_tw_reuse=2, for loopback alone, or 1, for all; better: keep connections")
        .changed_by(here.change(file, 2)),
        Some("2") => {
            let why = "ports that rest are used again on loopback; to other machines, keep connections";
            Examined::good(name, "2 (loopback)", why)
        }
        Some(set) => Examined::good(name, set.to_owned(), "ports that rest are used again"),
    }
}

fn window(here: &Here<'_>) -> Examined {
    let name = "tcp-window";
    let numbers = |file: &str| -> Option<[u64; 3]> {
        let text = here.text(file)?;
        let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<_>, _>>();
        numbers.ok()?.try_into().ok()
    };
    let [Some(read), Some(write)] = WINDOWS.map(|(file, _)| numbers(file)) else {
        return Examined::unknown(name, "/proc/sys/net/ipv4/tcp_rmem cannot be read");
    };
    let found = format!("received {}, sent {}", bytes(read[2]), bytes(write[2]));
    // Of the direction that is too small alone, and of it the largest alone.
    let short: Vec<(PathBuf, String)> = WINDOWS
        .iter()
        .zip([read, write])
        .filter(|(_, [.., most])| *most < WINDOW_WANTED)
        .map(|((file, wanted), [least, usual, _])| {
            (PathBuf::from(file), format!("{least} {usual} {}", wanted.max(&usual)))
        })
        .collect();
    if short.is_empty() {
        return Examined::good(name, found, "one connection fills 10 Gbit/s over 3 ms");
    }
    Examined::poor(name, found, "one connection to a distant machine cannot fill a fast link")
        .by(commands(&short))
        .changed_by(Change::of(here.root, &short))
}

/// Whether interfaces that are up take large pieces and cut them themselves.
fn segmentation(here: &Here<'_>) -> Examined {
    let name = "gso";
    let up = |interface: &String| {
        interface != "lo"
            && here.text(&format!("sys/class/net/{interface}/operstate")).as_deref() == Some("up")
    };
    let interfaces: Vec<String> = here.names("sys/class/net").into_iter().filter(up).collect();
    if interfaces.is_empty() {
        return Examined::unknown(name, "no interface is up, or /sys cannot be read");
    }
    let mut off = Vec::new();
    for interface in &interfaces {
        let Some(text) = features(interface) else {
            let why = "ethtool tells it, and is not installed, or is refused";
            return Examined::unknown(name, why)
                .by(format!("ethtool -K {interface} gso on tso on gro on, if they are off"));
        };
        off.extend(switched_off(&text).into_iter().map(|feature| (interface, feature)));
    }
    if off.is_empty() {
        let found = format!("on where it can be ({})", interfaces.join(" "));
        return Examined::good(name, found, "large pieces go down in one");
    }
    let found: Vec<String> = off
        .iter()
        .map(|(interface, (feature, _))| format!("{interface}: {feature} is off"))
        .collect();
    let commands: Vec<String> =
        off.iter().map(|(interface, (_, on))| format!("ethtool -K {interface} {on}")).collect();
    Examined::poor(name, found.join(", "), "each packet of 1.5 kB goes through the stack by itself")
        .by(commands.join(" && "))
}

/// What `ethtool -k` tells is off and can be switched on, each with the words that do.
fn switched_off(features: &str) -> Vec<(&'static str, &'static str)> {
    let state = |feature: &str| {
        features.lines().find_map(|line| line.trim().strip_prefix(feature)?.strip_prefix(": "))
    };
    let is_off = |feature| state(feature).is_some_and(|state| state.starts_with("off"));
    let is_fixed = |feature| state(feature).is_some_and(|state| state.ends_with("[fixed]"));
    let (gso, gro) = ("generic-segmentation-offload", "generic-receive-offload");
    let mut off = Vec::new();
    // Pieces are not cut where they cannot be gathered.
    let gathers = !is_off("scatter-gather");
    if is_off(gso) && !is_fixed(gso) && (gathers || !is_fixed("tx-scatter-gather")) {
        off.push((gso, if gathers { "gso on" } else { "sg on gso on" }));
    }
    if is_off(gro) && !is_fixed(gro) {
        off.push((gro, "gro on"));
    }
    off
}

fn features(interface: &str) -> Option<String> {
    let mut command = Command::new("ethtool");
    command.args(["-k", interface]).stdin(Stdio::null()).stderr(Stdio::null());
    let said = command.output().ok().filter(|said| said.status.success())?;
    Some(String::from_utf8_lossy(&said.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_for_good_is_not_to_be_switched_on() {
        let told = |gather: &str, cut: &str, receive: &str| {
            switched_off(&format!(
                "Features for eth0:\nscatter-gather: {gather}\n\ttx-scatter-gather: {gather}\n\
                 generic-segmentation-offload: {cut}\ngeneric-receive-offload: {receive}\n"
            ))
        };
        let (gso, gro) = ("generic-segmentation-offload", "generic-receive-offload");
        assert!(told("on", "on", "on").is_empty());
        assert_eq!(told("on", "off", "off"), [(gso, "gso on"), (gro, "gro on")]);
        assert!(told("on", "off [fixed]", "off [fixed]").is_empty());
        assert_eq!(told("off", "off [requested on]", "on"), [(gso, "sg on gso on")]);
        assert_eq!(told("off [fixed]", "off [requested on]", "off"), [(gro, "gro on")]);
    }
}
