//! Stacks as a call tree for a flame graph, small enough to be sent along.

use std::collections::HashMap;

use serde::Serialize;

use crate::explained::Stack;

use super::text;

/// A frame deeper than this is left out, with those it calls; the samples count for its caller.
const DEPTH_MAX: usize = 128;

/// What stands for calls that are too rare to be drawn.
const RARE: &str = "(rare)";

/// The names of frames, each once for the whole page.
#[derive(Default)]
pub(super) struct Names {
    index: HashMap<String, usize>,
    pub(super) all: Vec<String>,
}

impl Names {
    fn index_of(&mut self, name: &str) -> usize {
        if let Some(index) = self.index.get(name) {
            return *index;
        }
        let index = self.all.len();
        self.all.push(text::shown(name, text::NAME_MAX));
        self.index.insert(name.to_owned(), index);
        index
    }
}

/// A call tree, parents before their children. A node is its name's index, its parent's index
/// (itself for the root) and the samples in it and all that it calls.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tree {
    pub(super) nodes: Vec<(usize, usize, u64)>,
    /// How many calls were too rare to be kept.
    pub(super) cut: usize,
}

/// A node while the tree is made.
struct Node<'a> {
    name: &'a str,
    parent: usize,
    total: u64,
}

impl Tree {
    /// The tree of these stacks, with the `most` heaviest calls in it; the samples of what is left
    /// out stand beside as `(rare)`, so that every total is right.
    pub(super) fn of(stacks: &[Stack], most: usize, names: &mut Names) -> Tree {
        let nodes = grown(stacks);
        if nodes[0].total == 0 {
            return Tree::default();
        }
        let mut room = Room::of(&nodes, most);
        let mut kept: Vec<(usize, usize, u64)> = vec![(names.index_of("all"), 0, nodes[0].total)];
        let mut place: Vec<Option<usize>> = vec![None; nodes.len()];
        let mut rare: HashMap<usize, u64> = HashMap::new();
        let mut cut = 0;
        place[0] = Some(0);
        room.takes(nodes[0].total);
        for (index, node) in nodes.iter().enumerate().skip(1) {
            let Some(parent) = place[node.parent] else {
                cut += 1;
                continue;
            };
            if room.takes(node.total) {
                place[index] = Some(kept.len());
                kept.push((names.index_of(node.name), parent, node.total));
            } else {
                cut += 1;
                let of = rare.entry(parent).or_default();
                *of = of.saturating_add(node.total);
            }
        }
        let mut rare: Vec<_> = rare.into_iter().collect();
        rare.sort_unstable();
        let word = names.index_of(RARE);
        kept.extend(rare.into_iter().map(|(parent, total)| (word, parent, total)));
        Tree { nodes: kept, cut }
    }
}

/// All calls of all stacks, callers before those they call.
fn grown(stacks: &[Stack]) -> Vec<Node<'_>> {
    let mut nodes = vec![Node { name: "all", parent: 0, total: 0 }];
    let mut known: HashMap<(usize, &str), usize> = HashMap::new();
    for stack in stacks {
        let mut at = 0;
        nodes[0].total = nodes[0].total.saturating_add(stack.count);
        for name in stack.frames.split(';').take(DEPTH_MAX) {
            let next = *known.entry((at, name)).or_insert(nodes.len());
            if next == nodes.len() {
                nodes.push(Node { name, parent: at, total: 0 });
            }
            nodes[next].total = nodes[next].total.saturating_add(stack.count);
            at = next;
        }
    }
    nodes
}

/// Which calls are among the heaviest.
struct Room {
    /// The samples of the lightest of them. Heavier ones are all kept.
    threshold: u64,
    /// So many more of just as many samples are kept: the first.
    ties: usize,
}

impl Room {
    /// For the `most` heaviest calls.
    fn of(nodes: &[Node<'_>], most: usize) -> Room {
        let mut totals: Vec<u64> = nodes.iter().map(|node| node.total).collect();
        totals.sort_unstable_by(|a, b| b.cmp(a));
        let most = most.clamp(1, totals.len());
        let threshold = totals[most - 1];
        Room { threshold, ties: most - totals.partition_point(|total| *total > threshold) }
    }

    fn takes(&mut self, total: u64) -> bool {
        let is_tie = total == self.threshold && self.ties > 0;
        self.ties -= usize::from(is_tie);
        is_tie || total > self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks() -> Vec<Stack> {
        let stack = |frames: &str, count| Stack { frames: frames.to_owned(), count };
        vec![
            stack("main;read;copy", 70),
            stack("main;read", 20),
            stack("main;write", 9),
            stack("idle", 1),
        ]
    }

    #[test]
    fn every_call_has_the_samples_of_all_that_it_calls() {
        let mut names = Names::default();
        let tree = Tree::of(&stacks(), 100, &mut names);
        let told: Vec<_> = tree
            .nodes
            .iter()
            .map(|(name, parent, total)| (names.all[*name].as_str(), *parent, *total))
            .collect();
        let wanted = [
            ("all", 0, 100),
            ("main", 0, 99),
            ("read", 1, 90),
            ("copy", 2, 70),
            ("write", 1, 9),
            ("idle", 0, 1),
        ];
        assert_eq!(told, wanted);
        assert_eq!(tree.cut, 0);
    }

    #[test]
    fn what_is_left_out_stands_beside_so_that_totals_are_right() {
        let mut names = Names::default();
        let tree = Tree::of(&stacks(), 4, &mut names);
        for (index, (_, _, total)) in tree.nodes.iter().enumerate() {
            let below =
                tree.nodes.iter().enumerate().filter(|(at, node)| node.1 == index && *at != index);
            let called: u64 = below.map(|(_, node)| node.2).sum();
            assert!(called <= *total, "{tree:?}");
        }
        let rare: u64 =
            tree.nodes.iter().filter(|node| names.all[node.0] == RARE).map(|node| node.2).sum();
        assert_eq!((tree.cut, rare), (2, 10), "{tree:?}");
    }

    #[test]
    fn of_calls_with_as_many_samples_none_takes_the_place_of_a_heavier_one() {
        let stack = |frames: String, count| Stack { frames, count };
        let many = (0..30).map(|number| stack(format!("A;x{number}"), 10));
        let stacks: Vec<_> = many.chain((0..9).map(|at| stack(format!("B;y{at}"), 9))).collect();
        let mut names = Names::default();
        let tree = Tree::of(&stacks, 20, &mut names);
        let total = |name: &str| {
            let of = tree.nodes.iter().find(|node| names.all[node.0] == name);
            of.map(|node| node.2)
        };
        assert_eq!((total("A"), total("B"), total("y0")), (Some(300), Some(81), None), "{tree:?}");
        let kept = tree.nodes.iter().filter(|node| names.all[node.0] != RARE).count();
        assert_eq!((kept, tree.cut), (20, 13 + 9), "{tree:?}");
    }

    #[test]
    fn hostile_stacks_are_bounded() {
        let deep = Stack { frames: "f;".repeat(1_000_000), count: u64::MAX };
        let tree = Tree::of(&[deep.clone(), deep], 1000, &mut Names::default());
        assert!(tree.nodes.len() <= DEPTH_MAX + 2, "{}", tree.nodes.len());
        assert!(Tree::of(&[], 10, &mut Names::default()).nodes.is_empty());
    }
}
