//! Shares that others have published, put beside ours.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytepath_report::{ClassShare, Explained, unpacked};
use serde::Deserialize;

const DATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/published.z"));

/// What was published for one arm.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Shares {
    source: String,
    #[serde(flatten)]
    classes: BTreeMap<String, f64>,
}

fn all() -> &'static BTreeMap<String, Shares> {
    static ALL: OnceLock<BTreeMap<String, Shares>> = OnceLock::new();
    ALL.get_or_init(|| serde_json::from_str(&unpacked(DATA)).expect("a test reads this file too"))
}

/// Puts what was published for this arm beside what was found; true if there was anything.
pub fn beside(arm: &str, explained: &mut Explained) -> bool {
    let Some(published) = of(arm) else { return false };
    for (class, share) in &published.classes {
        match explained.classes.iter_mut().find(|found| found.name == *class) {
            Some(found) => found.published = Some(*share),
            None => explained.classes.push(ClassShare {
                name: class.clone(),
                published: Some(*share),
                ..ClassShare::default()
            }),
        }
    }
    true
}

/// Who published shares for this arm.
pub fn source(arm: &str) -> Option<&'static str> {
    of(arm).map(|published| published.source.as_str())
}

/// What was published for this arm. The ends that others looked at ran on two CPUs.
fn of(arm: &str) -> Option<&'static Shares> {
    (!arm.contains("@same-cpu")).then(|| all().get(own_name(arm)))?
}

/// The name of an arm without its placement and without its section.
fn own_name(arm: &str) -> &str {
    let name = arm.split('@').next().unwrap_or(arm);
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Classes;

    #[test]
    fn every_published_class_is_one_of_ours() {
        for (arm, shares) in all() {
            for class in shares.classes.keys() {
                assert!(Classes::built_in().named(class).is_some(), "{arm}: {class}");
            }
        }
    }

    #[test]
    fn published_shares_stand_beside_ours_also_where_we_found_none() {
        let copying = ClassShare { name: "copying".into(), share: 0.5, ..ClassShare::default() };
        let mut explained = Explained { classes: vec![copying], ..Explained::default() };
        assert!(beside("write-read@cross-cpu", &mut explained));
        assert_eq!(explained.classes[0].published, Some(0.24));
        assert_eq!(explained.classes[1].name, "page allocation and freeing");
        assert!(!beside("tee-reservoir@cross-cpu", &mut explained));
    }

    #[test]
    fn shares_of_two_cpus_are_not_those_of_one() {
        let mut explained = Explained::default();
        assert!(!beside("write-read@same-cpu", &mut explained));
        assert_eq!(source("write-read@same-cpu"), None);
        assert_eq!(explained, Explained::default());
    }
}
