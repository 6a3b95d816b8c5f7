//! What is asked of a part of a fleet's copying, and what it answers: a line of JSON each.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::cp::entries::is_entry;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path or name, which in JSON is a string of one character for each byte: names of any bytes are
/// told apart and come back as they were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Name(pub(super) OsString);

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.as_bytes().iter().map(|byte| char::from(*byte)).collect();
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        let text = String::deserialize(from)?;
        let bytes: Result<Vec<u8>, _> =
            text.chars().map(|char| u8::try_from(u32::from(char))).collect();
        let bytes = bytes
            .map_err(|_| serde::de::Error::custom("a name has a character that is no byte"))?;
        let name = Name(OsString::from_vec(bytes));
        match name.stays_below() {
            true => Ok(name),
            false => Err(serde::de::Error::custom("a name leads out of its directory")),
        }
    }
}

impl Name {
    /// Whether it is the root, or a path to what can only lie below it.
    pub(super) fn stays_below(&self) -> bool {
        let path = self.0.as_bytes();
        path.is_empty() || path.split(|byte| *byte == b'/').all(is_entry)
    }
}

impl From<&OsStr> for Name {
    fn from(name: &OsStr) -> Name {
        Name(name.to_owned())
    }
}

/// Work, and how much of it is done before the rest is given back.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) items: Vec<Item>,
    pub(super) budget_ms: u64,
    /// Bytes a second at most.
    #[serde(default)]
    pub(super) bytes_per_second: Option<u64>,
    /// Which stage is used: each part of the work has its own.
    #[serde(default)]
    pub(super) stage: u32,
    /// Whether trees are only given back in parts: something in them ends whoever copies it.
    #[serde(default)]
    pub(super) split: bool,
}

/// A piece of the work. Each can be done several times, and by several at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", try_from = "Line")]
pub(super) enum Item {
    /// Makes what the work needs in the destination, these stages among it: none that was ended already.
    Prepare { stages: Vec<u32> },
    /// A directory with all below it, or some of its entries.
    Tree(Tree),
    /// Makes the file that ranges are copied to, or a clone.
    Begin { f: Name, k: u64, w: f64 },
    /// Copies the bytes from `a` to `z`.
    Range {
        #[serde(flatten)]
        of: Staged,
        a: u64,
        z: u64,
        w: f64,
    },
    /// Gives a file whose ranges are copied its attributes and its name.
    End {
        #[serde(flatten)]
        of: Staged,
        size: u64,
        w: f64,
    },
    /// Gives files more names: the one that there is, the one that is to be.
    Links { links: Vec<(Name, Name)> },
    /// Gives the directories that a list names their attributes, from byte `a` on.
    Attributes { l: Name, a: u64 },
    /// Gives directories their attributes that nobody could enter once they have them; where it is the
    /// root, whether it is new.
    Closed { dirs: Vec<Name>, new: bool },
    /// Ends the use of a stage.
    Fence { stage: u32 },
    /// Brings all to the device.
    Sync,
    /// Removes all that was there for the work.
    Clean,
}

/// A large file that was begun: what it is called in the stage, which it was, and its time then.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Staged {
    pub(super) f: Name,
    pub(super) k: u64,
    pub(super) s: Name,
    pub(super) ino: u64,
    pub(super) mtime: i64,
    /// An earlier run began it: what is there by now may have nothing to do with what that had read.
    pub(super) earlier: bool,
}

/// A directory, or a part of it.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Tree {
    /// Its path in source and destination; empty for their roots.
    pub(super) d: Name,
    /// Entries, if these are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) n: Option<Vec<Name>>,
    /// The list of its entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) l: Option<Name>,
    /// The first byte in the list, and the one behind the last.
    pub(super) a: u64,
    pub(super) z: u64,
    /// Whether files are copied although they have more names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) alone: bool,
    /// Its share of the whole work, as far as that can be told.
    pub(super) w: f64,
}

/// A piece as it stands in its line, with the fields of all side by side. What is derived of a tagged enum keeps each
/// field as a value of its own first: 30 kB of the program.
#[derive(Deserialize)]
struct Line {
    r#do: String,
    stages: Option<Vec<u32>>,
    d: Option<Name>,
    n: Option<Vec<Name>>,
    l: Option<Name>,
    f: Option<Name>,
    s: Option<Name>,
    k: Option<u64>,
    a: Option<u64>,
    z: Option<u64>,
    w: Option<f64>,
    size: Option<u64>,
    ino: Option<u64>,
    mtime: Option<i64>,
    #[serde(default)]
    alone: bool,
    #[serde(default)]
    earlier: bool,
    links: Option<Vec<(Name, Name)>>,
    dirs: Option<Vec<Name>>,
    #[serde(default)]
    new: bool,
    stage: Option<u32>,
}

impl TryFrom<Line> for Item {
    type Error = String;

    fn try_from(line: Line) -> Result<Item, String> {
        Ok(match line.r#do.as_str() {
            "prepare" => Item::Prepare { stages: there("stages", line.stages)? },
            "tree" => Item::Tree(Tree {
                d: there("d", line.d)?,
                n: line.n,
                l: line.l,
                a: line.a.unwrap_or(0),
                z: line.z.unwrap_or(0),
                alone: line.alone,
                w: line.w.unwrap_or(0.0),
            }),
            "begin" => Item::Begin {
                f: there("f", line.f)?,
                k: there("k", line.k)?,
                w: there("w", line.w)?,
            },
            "range" => {
                let (a, z, w) = (there("a", line.a)?, there("z", line.z)?, there("w", line.w)?);
                Item::Range { of: line.staged()?, a, z, w }
            }
            "end" => {
                let (size, w) = (there("size", line.size)?, there("w", line.w)?);
                Item::End { of: line.staged()?, size, w }
            }
            "links" => Item::Links { links: there("links", line.links)? },
            "attributes" => Item::Attributes { l: there("l", line.l)?, a: there("a", line.a)? },
            "closed" => Item::Closed { dirs: there("dirs", line.dirs)?, new: line.new },
            "fence" => Item::Fence { stage: there("stage", line.stage)? },
            "sync" => Item::Sync,
            "clean" => Item::Clean,
            other => return Err(format!("there is no such piece of work: {other:?}")),
        })
    }
}

impl Line {
    fn staged(self) -> Result<Staged, String> {
        Ok(Staged {
            f: there("f", self.f)?,
            k: there("k", self.k)?,
            s: there("s", self.s)?,
            ino: there("ino", self.ino)?,
            mtime: there("mtime", self.mtime)?,
            earlier: self.earlier,
        })
    }
}

fn there<T>(name: &str, field: Option<T>) -> Result<T, String> {
    field.ok_or_else(|| format!("missing field `{name}`"))
}

/// What was done, and what is left.
#[derive(Debug, Default, Serialize)]
pub(super) struct Answer {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) directories: u64,
    pub(super) others: u64,
    /// What is left, and what was found.
    pub(super) rest: Vec<Item>,
    /// Files that are worth cutting.
    pub(super) large: Vec<Large>,
    /// Names of files that have several.
    pub(super) links: Vec<Several>,
    pub(super) failed: Vec<Failed>,
    /// What is worth a message and no failure.
    pub(super) told: Vec<String>,
    /// The list of directories that are to get their attributes, and how many those are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attributes: Option<(Name, u64)>,
    /// Directories that nobody could enter once they have their attributes.
    pub(super) closed: Vec<Name>,
    /// Names that are of other files than they were.
    pub(super) apart: Vec<Apart>,
    /// Files that were begun: whether they are whole already, which they are, their sizes, their times.
    pub(super) begun: Vec<Begun>,
    /// What was copied of large files: where they are begun anew, it does not count.
    pub(super) moved: Vec<Moved>,
    /// Large files that are gone, or others by now: nothing more of them is to be done.
    pub(super) again: Vec<Again>,
    /// Share of the whole work that was done.
    pub(super) w: f64,
    /// Why nothing more can be done at all: the destination is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<String>,
    /// Whether the work was found to be over.
    pub(super) fenced: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Large {
    pub(super) f: Name,
    pub(super) size: u64,
    pub(super) w: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Several {
    pub(super) f: Name,
    /// Without its device, whose number each machine has its own for: files of two may look like one.
    pub(super) ino: u64,
    /// An inode's number may be another file's meanwhile.
    pub(super) size: i64,
    pub(super) mtime: i64,
    pub(super) w: f64,
}

/// A name that was one more of a file, and is not; whether the file is gone by its first one.
#[derive(Debug, Serialize)]
pub(super) struct Apart {
    pub(super) f: Name,
    pub(super) name: Name,
    pub(super) gone: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Begun {
    pub(super) k: u64,
    /// What it is called in the stage, as no other beginning of it is.
    pub(super) s: Name,
    pub(super) cloned: bool,
    /// Without its device, as in [`Several`].
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) mtime: i64,
}

/// Bytes of a large file that were copied.
#[derive(Debug, Serialize)]
pub(super) struct Moved {
    pub(super) k: u64,
    pub(super) bytes: u64,
}

/// A large file whose name is to be looked at anew, and the share of the work that this was.
#[derive(Debug, Serialize)]
pub(super) struct Again {
    pub(super) k: u64,
    pub(super) w: f64,
}

/// What could not be done, so that it can be tried again, and why.
#[derive(Debug, Serialize)]
pub(super) struct Failed {
    pub(super) item: Item,
    pub(super) why: Vec<String>,
    pub(super) errno: Option<i32>,
}
