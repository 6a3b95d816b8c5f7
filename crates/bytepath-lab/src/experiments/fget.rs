//! `fget`: what a descriptor costs, by who shares the table that it is looked up in. After
//! "Improving fget() performance" (LWN, 2019), which found fget and fput to take 2% of memcached's CPU.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath_report::{Published, Unit};

use super::Description;
use crate::arm::{Arm, Work};
use crate::fget::calls::{self, CALLS, Call, Job};
use crate::fget::serve::{Family, Service};
use crate::fget::{SITUATIONS, Situation};
use crate::fget_work::{DescriptorWork, Server, ServiceWork};
use crate::tools::versions;

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "fget",
    question: "What does a descriptor cost, and what does it gain when threads do not share them?",
    definition: "A service that speaks a part of memcached's text protocol, and clients that keep \
                 one small request (one set, then nine gets of 64 bytes) in flight on each \
                 connection: nanoseconds of the service's CPU per request, over all its threads, \
                 without the clients and the neighbours, which each process has so many of. Then one call on a descriptor of \
                 /dev/null, without a network: nanoseconds of CPU per call. shared-table: threads \
                 share one table; fd-ranges: each one's descriptors lie in a range of its own; private-table: each \
                 thread has a table of its own; processes: one thread each; single-thread: one for \
                 all; uring: a ring a thread, its requests one at a time on each connection; \
                 uring-registered: of files that it keeps; uring-multishot: asked once to receive \
                 whatever comes, into buffers of its own; uring-direct-accept: its connections are \
                 accepted into the ring's own table, so that they never have a descriptor. busy: time per \
                 request between the calls that wait; a ring receives and sends within those.",
};

/// What the user may vary.
#[derive(Debug, Clone)]
pub struct Axes {
    /// Threads that serve, or call.
    pub threads: Vec<usize>,
    /// Connections.
    pub connections: Vec<usize>,
    /// Threads that open and close descriptors meanwhile.
    pub neighbours: Vec<usize>,
    /// How clients connect.
    pub families: Vec<Family>,
    /// Whether the threads that call do so on one open file, or on one each.
    pub one_file: Vec<bool>,
    /// Threads of clients.
    pub clients: usize,
    /// memcached beside ours, or why it cannot be.
    pub memcached: Option<Result<std::path::PathBuf, String>>,
}

/// The arms; `program` is bytepath.
pub fn arms(axes: &Axes, program: &Path) -> Vec<Arm> {
    let mut arms = Vec::new();
    for &family in &axes.families {
        for &threads in &axes.threads {
            for &connections in &axes.connections {
                for &neighbours in &axes.neighbours {
                    let service = Service {
                        situation: Situation::SharedTable,
                        threads,
                        connections,
                        neighbours,
                        family,
                    };
                    arms.extend(services(axes, service, program));
                }
            }
        }
    }
    for &call in CALLS {
        for &threads in &axes.threads {
            for &neighbours in &axes.neighbours {
                for &one_file in &axes.one_file {
                    let at = CallsAt { call, threads, neighbours, one_file };
                    arms.extend(at.arms(program));
                }
            }
        }
    }
    arms
}

/// The arms of one service: ours in every situation, and memcached.
fn services(axes: &Axes, service: Service, program: &Path) -> Vec<Arm> {
    let section = format!(
        "{}/t={}/c={}{}",
        service.family.name(),
        service.threads,
        service.connections,
        beside(service.neighbours)
    );
    let arm = |name: &str, server: Result<Server, String>, service: Service| {
        let work = server.map(|server| {
            let (program, clients) = (program.to_owned(), axes.clients);
            Box::new(ServiceWork { program, server, service, clients }) as Box<dyn Work>
        });
        let params = BTreeMap::from([
            ("situation".to_owned(), name.into()),
            ("threads".to_owned(), service.threads.into()),
            ("connections".to_owned(), service.connections.into()),
            ("neighbours".to_owned(), service.neighbours.into()),
            ("sockets".to_owned(), service.family.name().into()),
            ("clients".to_owned(), axes.clients.into()),
        ]);
        let name = format!("{section}/{name}");
        Arm { work, ..nanoseconds(name, &section, params) }
    };
    let ours = SITUATIONS.iter().map(|&situation| {
        let threads = if situation == Situation::SingleThread { 1 } else { service.threads };
        arm(situation.name(), Ok(Server::Ours), Service { situation, threads, ..service })
    });
    let mut arms: Vec<Arm> = ours.collect();
    // Nobody opens and closes descriptors within memcached.
    if let Some(found) = axes.memcached.as_ref().filter(|_| service.neighbours == 0) {
        let mut beside = arm("memcached", found.clone().map(Server::Memcached), service);
        beside.params.extend(versions(&["memcached"]));
        arms.push(beside);
    }
    arms
}

/// One point of the calls without a network.
struct CallsAt {
    call: Call,
    threads: usize,
    neighbours: usize,
    one_file: bool,
}

impl CallsAt {
    fn arms(&self, program: &Path) -> Vec<Arm> {
        let CallsAt { call, threads, neighbours, one_file } = *self;
        let file = if one_file { "one-file" } else { "own-files" };
        let section = format!("{}/{file}/t={threads}{}", call.name(), beside(neighbours));
        let arm = |&situation: &Situation| {
            let threads = if situation == Situation::SingleThread { 1 } else { threads };
            let time = std::time::Duration::ZERO;
            let job = Job { call, situation, threads, neighbours, one_file, warm_up: time, time };
            let params = BTreeMap::from([
                ("call".to_owned(), call.name().into()),
                ("situation".to_owned(), situation.name().into()),
                ("threads".to_owned(), threads.into()),
                ("neighbours".to_owned(), neighbours.into()),
                ("one_file".to_owned(), one_file.into()),
            ]);
            let work = Box::new(DescriptorWork { program: program.to_owned(), job });
            let name = format!("{section}/{}", situation.name());
            Arm { work: Ok(work as Box<dyn Work>), ..nanoseconds(name, &section, params) }
        };
        calls::SITUATIONS.iter().map(arm).collect()
    }
}

fn beside(neighbours: usize) -> String {
    if neighbours == 0 { String::new() } else { format!("/n={neighbours}") }
}

fn nanoseconds(name: String, section: &str, params: BTreeMap<String, serde_json::Value>) -> Arm {
    Arm {
        name,
        section: Some(section.to_owned()),
        params,
        unit: Unit::Nanoseconds,
        touched: false,
        published: None::<Published>,
        work: Err("not made yet".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes {
        Axes {
            threads: vec![1, 2],
            connections: vec![64],
            neighbours: vec![0, 1],
            families: vec![Family::Unix, Family::Tcp],
            one_file: vec![false, true],
            clients: 1,
            memcached: Some(Err("not here".into())),
        }
    }

    #[test]
    fn the_definition_says_what_every_situation_is() {
        for situation in SITUATIONS {
            let name = format!(" {}:", situation.name());
            assert!(DESCRIPTION.definition.contains(&name), "{name}");
        }
    }

    #[test]
    fn every_situation_is_at_every_point_and_names_are_unique() {
        let arms = arms(&axes(), Path::new("bytepath"));
        let mut names: Vec<_> = arms.iter().map(|arm| arm.name.as_str()).collect();
        for situation in SITUATIONS {
            for section in ["unix/t=1/c=64", "tcp/t=2/c=64/n=1"] {
                let name = format!("{section}/{}", situation.name());
                assert!(names.contains(&name.as_str()), "{name}");
            }
        }
        assert!(names.contains(&"read/one-file/t=2/n=1/private-table"));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(arms.iter().all(|arm| arm.work.is_ok() || arm.name.ends_with("/memcached")));
        let reference = arms.iter().find(|arm| arm.section.as_deref() == Some("unix/t=2/c=64"));
        assert!(reference.is_some_and(|arm| arm.name.ends_with("shared-table")));
    }
}
