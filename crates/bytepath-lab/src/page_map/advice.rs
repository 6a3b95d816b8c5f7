//! What of a mapping could be in huge pages and is not, and why, in words. Pure.

use bytepath::machine::Memory;

use super::Mapping;

/// What the machine is set to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The size of a huge page.
    pub huge_page_bytes: u64,
    /// `enabled` of transparent huge pages.
    pub enabled: Option<String>,
    /// `shmem_enabled`.
    pub shmem_enabled: Option<String>,
}

impl Settings {
    /// Of this machine.
    pub fn of(memory: &Memory) -> Settings {
        Settings {
            huge_page_bytes: memory.pmd_bytes.unwrap_or(2 << 20) as u64,
            enabled: memory.thp_enabled.clone(),
            shmem_enabled: memory.thp_shmem.clone(),
        }
    }
}

/// What could be huge and is not, and what would change that; `None` where there is nothing to say.
pub fn advice(mapping: &Mapping, settings: &Settings) -> Option<String> {
    let huge = settings.huge_page_bytes.max(1);
    let small = mapping.resident_bytes.saturating_sub(mapping.huge_bytes());
    if small < huge {
        return None;
    }
    let aligned = mapping.range.start.checked_next_multiple_of(huge)?;
    let whole = mapping.range.end.saturating_sub(aligned) / huge;
    let possible = small.min(whole * huge);
    let size = |bytes: u64| bytepath_report::numbers::bytes(bytes);
    if possible == 0 {
        return Some(format!(
            "{} in small pages: no aligned {} fits into it",
            size(small),
            size(huge)
        ));
    }
    let could = format!("{} could be in {} pages", size(possible), size(huge));
    let why = why(mapping, settings);
    Some(format!("{could} and is not: {why}"))
}

fn why(mapping: &Mapping, settings: &Settings) -> &'static str {
    let flag = |flag: &str| mapping.flags.iter().any(|known| known == flag);
    let shared = mapping.permissions.ends_with('s');
    let private = mapping.anonymous_bytes * 2 > mapping.resident_bytes;
    match () {
        () if flag("nh") => {
            "the program asked for small pages (MADV_NOHUGEPAGE, or prctl \
                             PR_SET_THP_DISABLE)"
        }
        () if shared && is_shared_memory(&mapping.name) => {
            match settings.shmem_enabled.as_deref() {
                Some("never") => {
                    "shmem_enabled is never; root may write advise to \
                                       /sys/kernel/mm/transparent_hugepage/shmem_enabled"
                }
                Some("deny") => {
                    "shmem_enabled is deny; root may write advise to \
                                      /sys/kernel/mm/transparent_hugepage/shmem_enabled"
                }
                Some("advise") if !flag("hg") => {
                    "shmem_enabled is advise, and the program did not ask \
                                              (MADV_HUGEPAGE)"
                }
                _ => {
                    "it was there before it was asked for, or memory was fragmented then; \
                  MADV_COLLAPSE moves it"
                }
            }
        }
        () if !private && !mapping.name.starts_with('[') && !mapping.name.is_empty() => {
            "pages of files are small on most file systems; MADV_COLLAPSE moves those of programs \
             where the kernel has CONFIG_READ_ONLY_THP_FOR_FS"
        }
        () => match settings.enabled.as_deref() {
            Some("never") => {
                "transparent huge pages are set to never; root may write madvise to \
                              /sys/kernel/mm/transparent_hugepage/enabled"
            }
            Some("madvise") if !flag("hg") => {
                "enabled is madvise, and the program did not ask \
                                               (MADV_HUGEPAGE; glibc's malloc asks with \
                                               GLIBC_TUNABLES=glibc.malloc.hugetlb=1)"
            }
            None => "this kernel has no transparent huge pages",
            _ if mapping.thp_eligible == Some(false) => {
                "the kernel says that it is not eligible \
                                                         (THPeligible in smaps)"
            }
            _ => {
                "it was there before it was asked for, or memory was fragmented then; khugepaged \
                  moves it in time, MADV_COLLAPSE at once"
            }
        },
    }
}

fn is_shared_memory(name: &str) -> bool {
    ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(enabled: &str, shmem: &str) -> Settings {
        Settings {
            huge_page_bytes: 2 << 20,
            enabled: Some(enabled.to_owned()),
            shmem_enabled: Some(shmem.to_owned()),
        }
    }

    fn private(bytes: u64) -> Mapping {
        Mapping {
            range: 2 << 20..(2 << 20) + bytes,
            permissions: "rw-p".to_owned(),
            resident_bytes: bytes,
            anonymous_bytes: bytes,
            thp_eligible: Some(true),
            ..Mapping::default()
        }
    }

    #[track_caller]
    fn says(mapping: &Mapping, settings: &Settings, words: &str) {
        let said = advice(mapping, settings).unwrap_or_default();
        assert!(said.contains(words), "{words:?} is not in {said:?}");
    }

    #[test]
    fn each_reason_has_its_remedy() {
        let usual = settings("madvise", "never");
        let memory = private(8 << 20);
        says(&memory, &usual, "8 MiB could be in 2 MiB pages");
        says(&memory, &usual, "the program did not ask");
        says(&memory, &settings("never", "never"), "write madvise");
        says(&memory, &settings("always", "never"), "khugepaged");
        let refused = Mapping { flags: vec!["nh".to_owned()], ..memory.clone() };
        says(&refused, &settings("always", "never"), "MADV_NOHUGEPAGE");
        let ineligible = Mapping { thp_eligible: Some(false), ..memory.clone() };
        says(&ineligible, &settings("always", "never"), "THPeligible");
        let shared = Mapping {
            permissions: "rw-s".to_owned(),
            name: "/memfd:ring (deleted)".to_owned(),
            anonymous_bytes: 0,
            ..memory.clone()
        };
        says(&shared, &usual, "shmem_enabled is never; root may write advise");
        says(&shared, &settings("always", "deny"), "shmem_enabled is deny; root may write advise");
        says(&shared, &settings("madvise", "advise"), "MADV_HUGEPAGE");
        let file = Mapping { name: "/usr/bin/x".to_owned(), anonymous_bytes: 0, ..memory };
        says(&file, &usual, "CONFIG_READ_ONLY_THP_FOR_FS");
    }

    #[test]
    fn what_is_huge_or_small_altogether_is_no_matter() {
        let usual = settings("madvise", "never");
        assert_eq!(advice(&private(1 << 20), &usual), None);
        let huge = Mapping { anon_huge_bytes: 8 << 20, ..private(8 << 20) };
        assert_eq!(advice(&huge, &usual), None);
        let odd = Mapping {
            range: (2 << 20) + 4096..(4 << 20) + (2 << 20) - 4096,
            resident_bytes: 3 << 20,
            anonymous_bytes: 3 << 20,
            ..private(0)
        };
        says(&odd, &usual, "no aligned 2 MiB fits");
    }
}
