//! A set of CPUs, read and written as the kernel writes it: `0-3,8`.

use std::fmt;
use std::path::Path;

use rustix::io::Errno;
use rustix::thread::CpuSet;

use super::files;

/// CPU numbers above this are taken for damage in a list and not believed: the kernel's own ceiling
/// (CONFIG_NR_CPUS) is 8192, and a line such as `0-4294967295` must not fill the memory.
const CPU_MAX: usize = 65_535;

/// CPUs by the kernel's numbers, ascending, each once.
///
/// ```
/// use bytepath::machine::CpuList;
/// let cpus = CpuList::parse("0-2,8");
/// assert!(cpus.contains(8));
/// assert_eq!(cpus.to_string(), "0-2,8");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// Reads the kernel's list format. Parts that are not numbers or ranges are left out, since a
    /// list of what is there serves better than none.
    pub fn parse(text: &str) -> CpuList {
        text.trim().split(',').filter_map(range).flatten().collect()
    }

    /// The CPUs that the calling thread may run on now.
    ///
    /// # Errors
    ///
    /// The kernel's word, where neither the call nor /proc/self/status tells: the call alone
    /// answers EINVAL on machines of more than 1024 CPUs, since the set that it is given is too
    /// small for them.
    pub fn of_this_thread() -> Result<CpuList, Errno> {
        rustix::thread::sched_getaffinity(None).map(|set| CpuList::from_set(&set)).or_else(
            |errno| {
                let status =
                    files::text(Path::new("/"), "proc/thread-self/status").unwrap_or_default();
                files::value(&status, "Cpus_allowed_list").map(CpuList::parse).ok_or(errno)
            },
        )
    }

    /// Whether `cpu` is in the list.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<usize> {
        self.0.first().copied()
    }

    /// How many CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no CPU in the list.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn from_set(set: &CpuSet) -> CpuList {
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuList {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuList(cpus)
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, run) in self.0.chunk_by(|before, after| before + 1 == *after).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match run {
                [only] => write!(out, "{comma}{only}")?,
                [first, .., last] => write!(out, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

fn range(part: &str) -> Option<std::ops::RangeInclusive<usize>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last <= CPU_MAX).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_survive_reading_and_writing() {
        for list in ["0", "0-1", "0-3,8", "1,3,5-7,1023", ""] {
            assert_eq!(CpuList::parse(list).to_string(), list);
        }
        assert_eq!(CpuList::parse(" 3,1-2\n").to_string(), "1-3");
    }

    #[test]
    fn damage_in_a_list_is_left_out_and_does_not_fill_the_memory() {
        assert_eq!(CpuList::parse("x,2,9-4,5-,0-4294967295,7").to_string(), "2,7");
        assert!(CpuList::parse("-").is_empty());
    }
}
