//! Shares that others have published, put beside ours.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytepath_report::{ClassShare, Explained, unpacked};

use crate::shares::wilson;

const DATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/published.z"));

/// By arm and class.
fn all() -> &'static BTreeMap<String, BTreeMap<String, f64>> {
    static ALL: OnceLock<BTreeMap<String, BTreeMap<String, f64>>> = OnceLock::new();
    ALL.get_or_init(|| serde_json::from_str(&unpacked(DATA)).expect("a test reads this file too"))
}

/// Puts what was published for this arm beside what was found; true if there was anything.
pub fn beside(arm: &str, explained: &mut Explained) -> bool {
    let Some(published) = of(arm) else { return false };
    // Of what was never seen there may have been some.
    let unseen = wilson(0.0, explained.samples as f64);
    for (class, share) in published {
        match explained.classes.iter_mut().find(|found| found.name == *class) {
            Some(found) => found.published = Some(*share),
            None => explained.classes.push(ClassShare {
                name: class.clone(),
                share: 0.0,
                ci95: unseen,
                published: Some(*share),
            }),
        }
    }
    true
}

/// What was published for this arm. The ends that others looked at ran on two CPUs.
fn of(arm: &str) -> Option<&'static BTreeMap<String, f64>> {
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
            for class in shares.keys() {
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
    fn what_was_published_and_never_seen_is_no_sure_difference() {
        let class = |share: f64, ci95| ClassShare {
            name: "page allocation and freeing".into(),
            share,
            ci95,
            published: None,
        };
        let of = |classes| Explained { samples: 1000, classes, ..Explained::default() };
        let (mut unseen, seen) = (of(Vec::new()), of(vec![class(0.002, [0.0005, 0.007])]));
        assert!(beside("write-read@cross-cpu", &mut unseen));
        let text = crate::show::difference(&unseen, &seen, Default::default());
        let row = text.lines().find(|line| line.contains("page allocation")).expect("a row");
        assert!(row.contains("within the intervals"), "{text}");
    }

    #[test]
    fn shares_of_two_cpus_are_not_those_of_one() {
        let mut explained = Explained::default();
        assert!(!beside("write-read@same-cpu", &mut explained));
        assert_eq!(explained, Explained::default());
    }
}
