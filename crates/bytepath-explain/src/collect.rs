//! Samples counted by the stack they were taken in, as records come in.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::record::{Kind, Record, Sample};
use crate::world::{Place, Whose, World};

/// So many samples are kept one by one, with their times; later ones are only counted. A CPU gives
/// some 3.6 million an hour.
const MOMENTS_MAX: usize = 8 << 20;

/// A thread that samples were taken of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Thread {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: String,
    pub(crate) whose: Whose,
}

/// A stack of a thread: numbers of places, leaf first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RawStack {
    pub(crate) thread: u32,
    pub(crate) places: Box<[u32]>,
}

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) time_ns: u64,
    pub(crate) stack: u32,
}

/// All samples so far.
pub(crate) struct Collected {
    pub(crate) world: World,
    pub(crate) threads: Vec<Thread>,
    pub(crate) places: Vec<Place>,
    pub(crate) stacks: Vec<RawStack>,
    /// Samples of each stack.
    pub(crate) counts: Vec<u64>,
    pub(crate) moments: Vec<Moment>,
    pub(crate) lost: u64,
    /// The CPUs that the work may run on.
    allowed: BTreeSet<u32>,
    /// Samples of the work on others, by CPU: nothing else is sampled there.
    pub(crate) elsewhere: BTreeMap<u32, u64>,
    thread_numbers: HashMap<Thread, u32>,
    place_numbers: HashMap<Place, u32>,
    stack_numbers: HashMap<RawStack, u32>,
}

impl Collected {
    /// Nothing yet of work that may run on these CPUs.
    pub(crate) fn new(world: World, allowed: impl IntoIterator<Item = u32>) -> Collected {
        Collected {
            world,
            threads: Vec::new(),
            places: Vec::new(),
            stacks: Vec::new(),
            counts: Vec::new(),
            moments: Vec::new(),
            lost: 0,
            allowed: allowed.into_iter().collect(),
            elsewhere: BTreeMap::new(),
            thread_numbers: HashMap::new(),
            place_numbers: HashMap::new(),
            stack_numbers: HashMap::new(),
        }
    }

    /// Takes a record; they come in the order of their times.
    pub(crate) fn take(&mut self, record: Record) {
        match record.kind {
            Kind::Sample(sample) => self.sample(record.time_ns, record.cpu, &sample),
            Kind::Lost(count) => self.lost += count,
            other => self.world.learn(other),
        }
    }

    /// The CPUs whose time counts: those that the work may run on, and any other that it was seen on.
    pub(crate) fn cpus(&self) -> BTreeSet<u32> {
        self.allowed.iter().chain(self.elsewhere.keys()).copied().collect()
    }

    fn sample(&mut self, time_ns: u64, cpu: u32, sample: &Sample) {
        let alone = sample.to_unwind.is_none() && sample.user.is_empty();
        let Some(whose) = self.world.whose(sample.pid, sample.tid, alone) else { return };
        if !self.allowed.contains(&cpu) {
            if whose != Whose::Work {
                return;
            }
            *self.elsewhere.entry(cpu).or_default() += 1;
        }
        let places = match whose {
            // What others do is theirs.
            Whose::Others => Vec::new(),
            _ => self.places_of(sample),
        };
        let thread = self.thread(sample, whose);
        let numbers = places.into_iter().map(|place| {
            let next = u32::try_from(self.places.len()).expect("fewer than 2^32 places");
            *self.place_numbers.entry(place).or_insert_with(|| {
                self.places.push(place);
                next
            })
        });
        let stack = RawStack { thread, places: numbers.collect() };
        let stack = match self.stack_numbers.get(&stack) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.stacks.len()).expect("fewer than 2^32 stacks");
                self.stacks.push(stack.clone());
                self.counts.push(0);
                self.stack_numbers.insert(stack, number);
                number
            }
        };
        self.counts[stack as usize] += 1;
        if self.moments.len() < MOMENTS_MAX {
            self.moments.push(Moment { time_ns, stack });
        }
    }

    /// Leaf first: the kernel's, then those of user space.
    fn places_of(&mut self, sample: &Sample) -> Vec<Place> {
        // A caller is at the byte before the one that it goes on from.
        let of_kernel =
            sample.kernel.iter().enumerate().map(|(depth, address)| {
                Place::Kernel(address.saturating_sub(u64::from(depth > 0)))
            });
        let mut places: Vec<Place> = of_kernel.collect();
        let user = self.world.user_places(sample.pid, &sample.user, sample.to_unwind.as_ref());
        places.extend(user);
        places
    }

    fn thread(&mut self, sample: &Sample, whose: Whose) -> u32 {
        let (pid, tid, name) = match whose {
            Whose::Idle => (0, 0, "idle".to_owned()),
            Whose::Others => (0, 0, "other programs".to_owned()),
            Whose::Work | Whose::Kernel => (sample.pid, sample.tid, self.world.name_of(sample.tid)),
        };
        let thread = Thread { pid, tid, name, whose };
        if let Some(number) = self.thread_numbers.get(&thread) {
            return *number;
        }
        let number = u32::try_from(self.threads.len()).expect("fewer than 2^32 threads");
        self.threads.push(thread.clone());
        self.thread_numbers.insert(thread, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_counts_on_cpus_that_the_work_may_run_on_and_the_work_alone_on_others() {
        // Numbers above any that the kernel gives (PID_MAX_LIMIT is 2^22).
        let (work, other) = (1 << 24, 2 << 24);
        let mut collected = Collected::new(World::new(&[work], []), [0]);
        for (time_ns, cpu, pid) in
            [(1, 0, 0), (2, 1, other), (3, 2, other), (4, 1, 0), (5, 1, work), (6, 0, other)]
        {
            let sample =
                Sample { pid, tid: pid, user: vec![1; pid.min(1) as usize], ..Sample::default() };
            collected.take(Record { time_ns, cpu, kind: Kind::Sample(Box::new(sample)) });
        }
        assert_eq!(collected.cpus(), BTreeSet::from([0, 1]));
        assert_eq!(collected.elsewhere, BTreeMap::from([(1, 1)]));
        let whose = |stack: &RawStack| collected.threads[stack.thread as usize].whose;
        let of = |part| {
            let counts = collected.stacks.iter().zip(&collected.counts);
            counts.filter(|(stack, _)| whose(stack) == part).map(|(_, count)| count).sum::<u64>()
        };
        assert_eq!([Whose::Idle, Whose::Others, Whose::Work].map(of), [1, 1, 1]);
        let times: Vec<u64> = collected.moments.iter().map(|moment| moment.time_ns).collect();
        assert_eq!(times, [1, 5, 6]);
    }
}
