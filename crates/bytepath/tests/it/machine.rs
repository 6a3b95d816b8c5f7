//! What the machine says of itself to a program that is short of something.

use bytepath::machine::{Call, Machine};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The name of the test below.
const UNTOLD: &str = "machine::what_could_not_be_found_without_descriptors_is_asked_again";

#[test]
fn what_could_not_be_found_without_descriptors_is_asked_again() {
    // Limits bind a whole process, so another one has them.
    if !crate::is_alone(UNTOLD) {
        return;
    }
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).expect("fewer are allowed");
    let machine = Machine::this();
    for call in Call::ALL {
        assert!(!machine.call(*call).is_yes(), "{} without a descriptor", call.name());
    }
    assert!(machine.ring().features().is_none());
    assert_eq!((machine.boot_id(), machine.pipes().default_bytes), ("", None));
    assert_eq!(machine.cpus().online(), *machine.allowed_cpus());
    setrlimit(Resource::Nofile, limit).expect("it was so before");
    for call in Call::ALL {
        assert_eq!(*machine.call(*call), call.probe(), "{}", call.name());
    }
    assert!(!machine.boot_id().is_empty() && machine.pipes().default_bytes.is_some());
    assert!(machine.call(Call::Splice).is_yes());
}
