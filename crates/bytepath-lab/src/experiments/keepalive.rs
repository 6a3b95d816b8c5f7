//! `keepalive`: a connection for each request, or one that is kept.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath_report::{Arm as ShownArm, Figures, Record, Unit, Verdict, numbers};

use super::Description;
use crate::arm::{Arm, Work};
use crate::keepalive::nginx::{self, Proxy};
use crate::keepalive::stage::Sample;
use crate::keepalive::work::KeepaliveWork;
use crate::keepalive::{BODY_BYTES, Connections, Load, Protocol};
use crate::lab;
use crate::tools::versions;

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "keepalive",
    question: "What does a connection for each request cost, against connections that are kept?",
    definition: "A client asks an upstream for 128 bytes, in a network namespace of its own for each \
                 sample: directly (http, fastcgi), or through nginx (proxy_pass, fastcgi_pass), whose \
                 own clients always keep their connections. new: a connection to the upstream for \
                 each request, as nginx does unless told otherwise; kept: with keepalive, HTTP/1.1 and \
                 an empty Connection header, or fastcgi_keep_conn. At saturation each connection of \
                 the client asks again as soon as it is answered, and the value is requests per \
                 second until the time is over; at a rate requests are made at times set beforehand, each is clocked from \
                 when it was due, and the value is the median. TIME_WAIT and ephemeral ports are those \
                 of connections to the upstream, by sock_diag every 50 ms. nginx has one worker, the \
                 client and the upstream one thread each.",
};

/// What others published: connections in TIME_WAIT without and with `keepalive 60`.
pub const PUBLISHED_TIME_WAIT: [u32; 2] = [1000, 20];
const PUBLISHED_KEEPALIVE: u32 = 60;

/// What goes through nginx.
const PROXIED: [&str; 2] = ["proxy_pass", "fastcgi_pass"];

/// What is asked for.
pub struct Setup<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// Where files are made.
    pub directory: &'a Path,
    /// Connections of the client.
    pub concurrency: usize,
    /// Requests per second of the arms at a rate.
    pub rate: f64,
    /// Idle connections that nginx keeps.
    pub keepalive: u32,
    /// nginx's workers.
    pub workers: u32,
}

/// The arms: through nginx and directly, at saturation and at a rate, by TCP and by Unix sockets.
pub fn arms(setup: &Setup<'_>) -> Vec<Arm> {
    let (nginx, versions) = (nginx::found(), versions(&["nginx"]));
    let mut arms = Vec::new();
    for (via, protocol, proxied) in [
        ("proxy_pass", Protocol::Http, true),
        ("fastcgi_pass", Protocol::Fastcgi, true),
        ("http", Protocol::Http, false),
        ("fastcgi", Protocol::Fastcgi, false),
    ] {
        for load in [Load::Saturation, Load::Rate(setup.rate)] {
            for unix in [false, true] {
                for connections in [Connections::New, Connections::Kept] {
                    let program = proxied.then(|| nginx.clone()).transpose();
                    let sample = program.map(|program| Sample {
                        protocol,
                        unix,
                        connections,
                        proxy: program.map(|program| Proxy {
                            program,
                            workers: setup.workers,
                            protocol,
                            connections,
                            keepalive: setup.keepalive,
                        }),
                        concurrency: setup.concurrency,
                        load,
                        warm_up_s: 0.0,
                        time_s: 0.0,
                        directory: setup.directory.to_owned(),
                    });
                    let way =
                        format!("{}-{}", if unix { "unix" } else { "tcp" }, connections.name());
                    let mut arm = arm(via, load, &way, sample, setup);
                    arm.params.extend(proxied.then(|| versions.clone()).into_iter().flatten());
                    arms.push(arm);
                }
            }
        }
    }
    arms
}

fn arm(via: &str, load: Load, way: &str, sample: Result<Sample, String>, setup: &Setup<'_>) -> Arm {
    let (load_name, unit) = match load {
        Load::Saturation => ("saturation", Unit::OpsPerSecond),
        Load::Rate(_) => ("rate", Unit::Nanoseconds),
    };
    let section = format!("{via}/{load_name}");
    let mut params = BTreeMap::from([
        ("body_bytes".to_owned(), BODY_BYTES.into()),
        ("connections_at_once".to_owned(), setup.concurrency.into()),
    ]);
    if let Load::Rate(rate) = load {
        params.insert("requests_per_s".to_owned(), rate.into());
    }
    let proxy = sample.as_ref().ok().and_then(|sample| sample.proxy.as_ref());
    if let Some(proxy) = proxy {
        let kept = proxy.connections == Connections::Kept;
        params.insert("nginx_workers".to_owned(), proxy.workers.into());
        params.insert("nginx_keepalive".to_owned(), kept.then_some(proxy.keepalive).into());
        if !kept || proxy.keepalive == PUBLISHED_KEEPALIVE {
            params.insert(
                "published_time_wait".to_owned(),
                PUBLISHED_TIME_WAIT[usize::from(kept)].into(),
            );
        }
    }
    let work = sample.map(|sample| {
        Box::new(KeepaliveWork {
            program: setup.program.to_owned(),
            sample,
            directory: setup.directory.to_owned(),
        }) as Box<dyn Work>
    });
    Arm {
        name: format!("{section}/{way}"),
        section: Some(section),
        params,
        unit,
        touched: true,
        published: None,
        work,
    }
}

/// One sentence on what this machine shows, beside what was published; none where there is nothing to
/// compare.
pub fn shows(record: &Record) -> Option<String> {
    let arm = |via: &str, way: &str| {
        let name = format!("{via}/saturation/{way}");
        record.arms.iter().find(|arm| arm.name == name && arm.median.is_some())
    };
    let compared = |via: &str| {
        let (new, kept) = (arm(via, "tcp-new")?, arm(via, "tcp-kept")?);
        let times = times(kept, new)?;
        let (before, after) = (waits(new)?, waits(kept)?);
        Some(format!(
            "kept connections give {times} the requests through {via}, and TIME_WAIT goes from \
             {before} to {after}"
        ))
    };
    let parts: Vec<_> = PROXIED.into_iter().filter_map(compared).collect();
    let direct: Vec<_> = ["http", "fastcgi"]
        .into_iter()
        .filter_map(|via| {
            let (new, kept) = (arm(via, "tcp-new")?, arm(via, "tcp-kept")?);
            let times = times(kept, new)?;
            Some(format!("without nginx they give {times} as many ({via})"))
        })
        .collect();
    if parts.is_empty() && direct.is_empty() {
        return None;
    }
    let repeats = |via: &&str| {
        arm(via, "tcp-kept").is_some_and(|kept| {
            kept.params.get("nginx_keepalive") == Some(&PUBLISHED_KEEPALIVE.into())
        })
    };
    let published = match !parts.is_empty() && PROXIED.iter().any(repeats) {
        false => String::new(),
        true => format!(
            "; published: from over {} to about {}",
            PUBLISHED_TIME_WAIT[0], PUBLISHED_TIME_WAIT[1]
        ),
    };
    let all = parts.into_iter().chain(direct).collect::<Vec<_>>().join("; ");
    Some(format!("Here {all}{published}"))
}

/// How many times as many requests; between which numbers it is where that is not decided.
fn times(kept: &ShownArm, new: &ShownArm) -> Option<String> {
    let factor = numbers::figure(lab::times(kept, new)?);
    Some(match (kept.verdict, kept.ratio_ci95) {
        (Some(Verdict::Faster | Verdict::Slower | Verdict::Same), _) => format!("{factor} times"),
        (_, Some([low, high])) => {
            format!("{} to {} times (undecided)", numbers::figure(low), numbers::figure(high))
        }
        (_, None) => format!("{factor} times (undecided)"),
    })
}

/// Connections in TIME_WAIT at most, on both sides.
fn waits(arm: &ShownArm) -> Option<String> {
    let figures = Figures::of_arm(arm)?;
    let all = figures.get("TIME_WAIT upstream")? + figures.get("TIME_WAIT caller")?;
    Some(numbers::figure(all))
}

#[cfg(test)]
mod tests {
    use bytepath_report::figures;

    use super::*;
    use crate::experiments::record_of;

    /// A record of two arms, new and kept.
    fn record(keepalive: u32, verdict: Option<Verdict>, ci95: Option<[f64; 2]>) -> Record {
        let arm = |way: &str, median: f64| {
            let name = format!("proxy_pass/saturation/{way}");
            let mut arm =
                ShownArm { median: Some(median), ..ShownArm::new(name, Unit::OpsPerSecond) };
            let mut figures = Figures::default();
            figures.add("TIME_WAIT upstream", "", 7.0);
            figures.add("TIME_WAIT caller", "", 0.0);
            let figures = serde_json::to_value(figures).expect("JSON");
            arm.params.insert(figures::PARAM.to_owned(), figures);
            arm.params.insert("nginx_keepalive".to_owned(), keepalive.into());
            arm
        };
        let kept = ShownArm { verdict, ratio_ci95: ci95, ..arm("tcp-kept", 300.0) };
        record_of(vec![arm("tcp-new", 100.0), kept])
    }

    #[test]
    fn a_ratio_that_is_undecided_is_told_as_one() {
        for (verdict, ci95, times) in [
            (Some(Verdict::Faster), Some([2.5, 3.5]), "3.00 times the"),
            (Some(Verdict::Same), Some([0.99, 1.01]), "3.00 times the"),
            (Some(Verdict::Undecided), Some([0.384, 25.7]), "0.384 to 25.7 times (undecided) the"),
            (None, None, "3.00 times (undecided) the"),
        ] {
            let said = shows(&record(60, verdict, ci95)).expect("two are compared");
            let begins = format!("Here kept connections give {times} requests through proxy_pass");
            assert!(said.starts_with(&begins), "{said}");
        }
    }

    #[test]
    fn the_published_figure_stands_beside_as_many_kept_connections() {
        for (keepalive, beside) in [(60, true), (8, false)] {
            let said = shows(&record(keepalive, None, None)).expect("two are compared");
            assert_eq!(said.contains("published"), beside, "{said}");
        }
    }
}
