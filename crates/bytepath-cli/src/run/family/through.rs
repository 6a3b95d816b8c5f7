//! What went through each pipe, told by what its ends count of all that they read and write.

use rustix::process::getpid;

use super::{Family, Joint, Member};
use crate::run::process::{self, Id, Moved, OpenPipe};

/// Bytes that went through a pipe, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Through {
    /// Writer and reader tell the same.
    Agreed(u64),
    /// One of them tells, or one tells less: the other has other files as well, or moves bytes
    /// without counting them, as splice(2) does.
    About(u64),
    /// So much is known to have gone through, and more may have.
    AtLeast(u64),
    Unknown,
}

/// What programs read when they start, at the most: some kilobytes.
pub(super) const START_BYTES: u64 = 64 << 10;
/// What tells nothing of who has an end of a pipe if it wrote (0), or read (1), no more.
pub(super) const START_MOVES_BYTES: [u64; 2] = [0, START_BYTES];

impl Family {
    /// What went through a pipe since it was there.
    pub(in crate::run) fn through(&self, joint: &Joint) -> Through {
        if joint.others() != [0; 2] {
            return self.by_several(joint);
        }
        let own = |id| self.member(id).filter(|member| !self.counts_others(member));
        let through = self.told(own(joint.writer), own(joint.reader), joint.most_bytes);
        let through = match through {
            Through::Agreed(_) => through,
            _ => self.past_a_splicer(joint, own).map_or(through, Through::About),
        };
        // What ended unseen was looked at before that, and so was the pipe.
        let is_alive = |id| self.member(id).is_some_and(|member| member.alive);
        match self.is_at_least(joint) && !is_alive(joint.writer) {
            true => through,
            false => through.unless_less_than(joint.most_bytes),
        }
    }

    /// What went through a pipe whose end several had, one after the other or at once. What they wrote and read
    /// may be of files of their own: so it is what one reader tells that was seen to its end, or at least what
    /// those tell that read nothing else.
    fn by_several(&self, joint: &Joint) -> Through {
        let read = |member: &Member| member.now.moved.map_or(0, |moved| moved.read_bytes);
        let readers = joint.moved[1].keys().filter_map(|id| self.member(*id));
        // Who has waited counts what others read, also as the last program that a shell becomes.
        let readers = readers.filter(|it| !it.now.has_waited && read(it) > START_BYTES);
        let is_whole = |it: &&Member| it.seen_ended && !it.names_file;
        if joint.others()[1] == 0
            && let Some(bytes) = readers.clone().find(is_whole).map(read)
            && bytes >= joint.most_bytes
        {
            return Through::About(bytes);
        }
        let alone = readers.filter(|it| it.reads_input_alone() && it.reads_one_pipe());
        match alone.map(read).map(without_start).sum() {
            0 => Through::Unknown,
            bytes => Through::AtLeast(bytes),
        }
    }

    /// What went through a pipe one of whose ends has counted less than what came to it, as one does that
    /// moves a part of it by splice(2), where its two neighbours agree.
    fn past_a_splicer<'a>(
        &'a self,
        joint: &Joint,
        own: impl Fn(Id) -> Option<&'a Member>,
    ) -> Option<u64> {
        let moved = |id| self.moved_in_all(own(id)?);
        let written = |id| Some(self.passed_on(own(id)?, moved(id)?));
        let joints = || self.joints.values().filter(|joint| joint.others() == [0; 2]);
        [joint.reader, joint.writer].into_iter().find_map(|middle| {
            let above = joints().find(|it| it.reader == middle)?;
            let below = joints().find(|it| it.writer == middle)?;
            let (came, counted) = (written(above.writer)?, moved(middle)?.read_bytes);
            let went = moved(below.reader)?.read_bytes;
            let has_spliced = counted < came && !agree(&(counted, came));
            (has_spliced && agree(&(came, went))).then_some(came)
        })
    }

    /// What it moved in the end. Where it was not looked at after that, the shell that waited for it,
    /// and for no other, counts it.
    fn moved_in_all(&self, member: &Member) -> Option<Moved> {
        if member.seen_ended {
            return member.now.moved;
        }
        let shell = self.parent(member)?;
        let mut others = self.members.iter().filter(|other| other.id() != member.id());
        let is_alone = others.all(|other| other.now.parent != member.now.parent);
        (is_alone && shell.seen_ended && self.counts_others(shell)).then_some(shell.now.moved)?
    }

    /// Whether it is a shell that has waited for what it started. It has the ends of all their pipes
    /// until they have begun, and so may be taken for the end of any, while its counts are of all.
    fn counts_others(&self, member: &Member) -> bool {
        self.is_shell(member) && member.now.has_waited
    }

    /// Whether more may have gone through than that.
    pub(in crate::run) fn is_at_least(&self, joint: &Joint) -> bool {
        let is_whole = |member: &Member| member.seen_ended && !self.counts_others(member);
        let whole = |id| self.member(id).is_some_and(is_whole);
        !whole(joint.writer) && !whole(joint.reader)
    }

    /// What went from one to the other, if there is a pipe between them.
    pub(in crate::run) fn between(&self, writer: Id, reader: Id) -> Through {
        self.told(self.member(writer), self.member(reader), 0)
    }

    /// What went from one to the other by what they count, where this was seen between them at
    /// once.
    fn told(&self, writer: Option<&Member>, reader: Option<&Member>, seen_bytes: u64) -> Through {
        let whole = |member: Option<&Member>| member.and_then(|member| self.moved_in_all(member));
        let one_is_whole = whole(writer).is_some() != whole(reader).is_some();
        // What was not looked at after its end says less than what was.
        let as_seen = |member: Option<&Member>| member.filter(|_| !one_is_whole)?.now.moved;
        let moved = |member| whole(member).or_else(|| as_seen(member));
        let counted = moved(writer).map(|moved| moved.written_bytes);
        let written = writer.zip(moved(writer)).map(|(it, moved)| self.passed_on(it, moved));
        let read = moved(reader).map(|moved| moved.read_bytes);
        let through = match Through::of(written, read, seen_bytes) {
            // Our movers do not count what they give on by reference.
            Through::Unknown if writer.is_some_and(|writer| self.is_ours(writer)) => {
                Through::of(None, read, seen_bytes)
            }
            through => through,
        };
        let is_as_read = through == Through::About(read.unwrap_or(0));
        let is_of_reader = read > written && is_as_read;
        let splices = |reader: &Member| self.may_splice(reader) && !reader.names_file;
        match through {
            // One that splices counts only what it could not, and the writer all that it gave on.
            Through::About(read) if is_as_read && reader.is_some_and(splices) => {
                let has_one_output = writer.is_some_and(Member::has_one_output);
                match written.filter(|written| *written > read && has_one_output) {
                    // It may have left so much in the pipe.
                    Some(written) if written - read <= self.left_max(writer, reader).min(read) => {
                        Through::About(read)
                    }
                    Some(written) => Through::About(written),
                    None => Through::AtLeast(without_start(read)),
                }
            }
            // Nobody tells what of that it read from its other files.
            _ if is_of_reader && reader.is_some_and(|reader| reader.names_file) => {
                let seen = writer.zip(writer.and_then(|writer| writer.now.moved));
                let seen = seen.map_or(0, |(it, moved)| self.passed_on(it, moved));
                match seen.min(read.unwrap_or(0)) {
                    ..=START_BYTES => Through::Unknown,
                    bytes => Through::AtLeast(bytes),
                }
            }
            // What a mover read bounds what it passed on, with its libraries.
            Through::Agreed(bytes) if written != counted => Through::About(bytes),
            through => match (written, writer, reader) {
                (Some(written), Some(writer), Some(reader)) => {
                    let beyond = self.beyond(written, writer, read, reader);
                    beyond.filter(|beyond| beyond.bytes() >= through.bytes()).unwrap_or(through)
                }
                _ => through,
            },
        }
    }

    /// What went through where the reader may have read more than the writer counts: one that
    /// splices counts only what it could not, and other files of a reader are counted too.
    fn beyond(
        &self,
        written: u64,
        writer: &Member,
        read: Option<u64>,
        reader: &Member,
    ) -> Option<Through> {
        let is_more = |read: u64| read > written && !agree(&(read, written));
        let last_seen = reader.now.moved.map_or(0, |moved| moved.read_bytes);
        let has_spliced = self.may_splice(writer) && !self.is_ours(writer);
        match read {
            _ if is_more(last_seen) && reader.reads_input_alone() => Some(match read {
                // As its shell tells, which may have run others.
                Some(read) if read.saturating_sub(last_seen) <= read / 4 => Through::About(read),
                _ => Through::AtLeast(without_start(last_seen)),
            }),
            _ if written <= START_BYTES => None,
            Some(read) => (has_spliced && is_more(read)).then_some(Through::AtLeast(written)),
            None => (has_spliced || is_more(last_seen)).then_some(Through::AtLeast(written)),
        }
    }

    /// What the pipe between them can hold.
    fn left_max(&self, writer: Option<&Member>, reader: Option<&Member>) -> u64 {
        let ends = writer.zip(reader).map(|(writer, reader)| (writer.id(), reader.id()));
        let joint = self.joints.values().find(|it| Some((it.writer, it.reader)) == ends);
        let held = joint.map(|joint| joint.holds_bytes).filter(|bytes| *bytes > 0);
        held.unwrap_or_else(|| self.size.each_of(1, 0)) as u64
    }

    /// What it wrote to one of its files, at the most: who writes all to several files, or messages
    /// as well, writes no more to each than it read.
    fn passed_on(&self, member: &Member, moved: Moved) -> u64 {
        let Moved { read_bytes, written_bytes } = moved;
        // Of one that has read next to nothing, or is ours, reading may not be counted.
        let is_bounded = read_bytes > START_BYTES && member.passes_on() && !self.is_ours(member);
        let is_more = written_bytes > read_bytes && !agree(&(written_bytes, read_bytes));
        if is_bounded && is_more { read_bytes } else { written_bytes }
    }

    /// Whether it may move a part by splice(2), which nobody counts.
    fn may_splice(&self, member: &Member) -> bool {
        member.now.name == "pv" || self.is_ours(member)
    }

    /// Whether it runs our own program.
    fn is_ours(&self, member: &Member) -> bool {
        self.own.is_some() && member.program == self.own
    }
}

impl Member {
    /// The words behind its program's name; none where the words are those of one that was there
    /// before.
    fn words_behind(&self) -> Option<impl Iterator<Item = &str>> {
        let mut words = self.words.split_whitespace();
        let program = words.next()?.rsplit('/').next()?;
        (program == self.now.name).then_some(words)
    }

    /// Whether each of its files gets no more than it read. A cat needs no such bound: it has one
    /// output, and writes more than it read only where an option adds something.
    fn passes_on(&self) -> bool {
        let names_output = |word: &str| word.starts_with("/dev/") || word.starts_with("/proc/");
        match self.now.name.as_str() {
            "pv" => true,
            "tee" => !self.words_behind().is_some_and(|mut words| words.any(names_output)),
            _ => false,
        }
    }

    /// Whether all that it writes, but for messages, goes to its pipe, as far as was seen.
    fn has_one_output(&self) -> bool {
        // What we have there as well was handed down, as make does, and is nobody's output.
        let ours = process::open(getpid()).0;
        let outputs = self.ends(false).filter(|pipe| pipe.fd != 2 && !ours.contains(pipe));
        let mut outputs = outputs.map(|pipe| pipe.number);
        let first = outputs.next();
        let is_one = first.is_some() && outputs.all(|number| Some(number) == first);
        self.passes_on() || (is_one && !self.writes_file)
    }

    /// Whether it reads nothing but its input, and that is a pipe: one of these, without the name
    /// of a file.
    fn reads_input_alone(&self) -> bool {
        let is_option = |word: &str| word.starts_with('-') && !word.starts_with("--");
        let names_none = || self.words_behind().is_some_and(|mut words| words.all(is_option));
        let is_alone = match self.now.name.as_str() {
            "tee" => true,
            "cat" | "pv" | "wc" => names_none(),
            _ => false,
        };
        is_alone && self.pipes.iter().any(|pipe| pipe.is_read && pipe.fd == 0)
    }

    fn reads_one_pipe(&self) -> bool {
        self.ends(true).count() == 1
    }

    /// A pipe of which it has both ends, as for its signals, is its own affair.
    fn ends(&self, is_read: bool) -> impl Iterator<Item = &OpenPipe> {
        let has_other =
            move |number| self.pipes.iter().any(|it| it.number == number && it.is_read != is_read);
        self.pipes.iter().filter(move |it| it.is_read == is_read && !has_other(it.number))
    }

    /// Whether it may have moved more than was last seen.
    pub(in crate::run) fn moved_at_least(&self) -> bool {
        self.now.moved.is_some() && !self.seen_ended
    }
}

impl Joint {
    /// How many others than the two that it joins had its ends, and wrote and read something.
    pub(in crate::run) fn others(&self) -> [usize; 2] {
        let of = |end: usize, own: Id| {
            let least = START_MOVES_BYTES[end];
            let moved = self.moved[end].iter();
            moved.filter(|(id, bytes)| **id != own && **bytes > least).count()
        };
        [of(0, self.writer), of(1, self.reader)]
    }

    /// Of about so many bytes, and more that went through unseen: what certainly did.
    pub(in crate::run) fn at_least(&self, bytes: u64) -> Through {
        Through::AtLeast(without_start(bytes).max(self.most_bytes))
    }
}

impl Through {
    /// Only what both ends tell.
    pub(in crate::run) fn agreed_bytes(self) -> Option<u64> {
        match self {
            Through::Agreed(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(in crate::run) fn bytes(self) -> Option<u64> {
        match self {
            Through::Agreed(bytes) | Through::About(bytes) | Through::AtLeast(bytes) => Some(bytes),
            Through::Unknown => None,
        }
    }

    /// Where more than that was seen in the pipe, neither end counts what it moves.
    fn unless_less_than(self, most_bytes: u64) -> Through {
        match self.bytes() {
            Some(bytes) if bytes < most_bytes => Through::Unknown,
            _ => self,
        }
    }

    /// Of what its writer wrote and its reader read, of all their files, and the most that was seen in
    /// the pipe.
    fn of(written: Option<u64>, read: Option<u64>, seen_bytes: u64) -> Through {
        // Who read less than was seen in the pipe does not count what it moves.
        let read = read.filter(|read| *read > START_BYTES || *read >= seen_bytes);
        let has_read_little = read.is_some_and(|read| read <= START_BYTES);
        let (writer_tells, reader_tells) = (written.is_some(), read.is_some());
        let [written, read] = [written, read].map(|bytes| bytes.unwrap_or(0));
        let (less, more) = (written.min(read), written.max(read));
        let agree = written > 0 && agree(&(written, read));
        match () {
            () if agree && less > START_BYTES => Through::Agreed(written),
            // What was read may have been the reader's own files, and what was written messages.
            () if agree && seen_bytes > 0 => Through::About(written),
            () if agree => Through::Unknown,
            () if less > START_BYTES => Through::About(less),
            // What was written went elsewhere, all or nearly all of it.
            () if has_read_little || more <= START_BYTES => Through::Unknown,
            () if !reader_tells => Through::About(written),
            // Where the writer does not count what it moves, the reader does.
            () if !writer_tells || seen_bytes > written => Through::About(read),
            // What was read were the reader's other files.
            () => Through::Unknown,
        }
    }
}

/// What it read of its input, at the least.
fn without_start(read_bytes: u64) -> u64 {
    read_bytes.saturating_sub(START_BYTES)
}

/// Whether two counts are of the same bytes.
fn agree((one, other): &(u64, u64)) -> bool {
    one.abs_diff(*other) <= START_BYTES.max(one.max(other) / 50)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use bytepath::machine::CpuList;

    use rustix::process::Pid;

    use super::*;
    use crate::run::below::Below;
    use crate::run::process::Reading;
    use crate::run::sizes::PipeSize;

    /// Of one that began as this process did, as all of these tests do.
    fn id(pid: Pid) -> Id {
        Id { number: pid.as_raw_nonzero().get(), ..Id::of(getpid()).expect("ours") }
    }

    #[test]
    fn bytes_through_a_pipe_are_known_where_both_ends_agree() {
        let mib = 1 << 20;
        let of = |written, read| Through::of(written, read, 0);
        assert_eq!(of(Some(90 * mib), Some(90 * mib + 5000)), Through::Agreed(90 * mib));
        assert_eq!(of(Some(90 * mib), Some(40 * mib)), Through::About(40 * mib));
        assert_eq!(of(None, Some(40 * mib)), Through::About(40 * mib));
        assert_eq!(of(None, Some(4000)), Through::Unknown);
        // A writer that splices; and a reader of other files, or one that nobody saw splice.
        assert_eq!(Through::of(Some(0), Some(40 * mib), mib), Through::About(40 * mib));
        assert_eq!(of(Some(0), Some(40 * mib)), Through::Unknown);
        assert_eq!(Through::of(Some(4), Some(40 * mib), 4), Through::Unknown);
        // So little is in no pipe that nobody saw it in.
        assert_eq!(Through::of(Some(2), Some(5000), 2), Through::About(2));
        assert_eq!(of(Some(2), Some(5000)), Through::Unknown);
        assert_eq!(of(Some(30_890), Some(37_000)), Through::Unknown);
        assert_eq!(of(Some(70_000), Some(75_000)), Through::Agreed(70_000));
        // A copy that says so in a line, and one whose reader splices.
        assert_eq!(of(Some(90 * mib + 12), Some(14_796)), Through::Unknown);
        assert_eq!(Through::of(Some(90 * mib), Some(14_796), mib), Through::About(90 * mib));
        assert_eq!(of(Some(90 * mib), None), Through::About(90 * mib));
        assert_eq!(Through::Agreed(163).unless_less_than(164), Through::Unknown);
        assert_eq!(Through::About(164).unless_less_than(164), Through::About(164));
    }

    #[test]
    fn what_two_stages_agree_on_went_through_the_one_between_them() {
        let [first, mid, last] = [1, 2, 3].map(|number| Pid::from_raw(number).expect("one"));
        let told = |[written, mid_read, mid_written, read]: [u64; 4]| {
            let size = PipeSize::new(None);
            let mut family = Family::new(Below::default(), size, CpuList::default(), None);
            for (pid, read_bytes, written_bytes) in
                [(first, 0, written), (mid, mid_read, mid_written), (last, read, 0)]
            {
                let moved = Some(Moved { read_bytes, written_bytes });
                let (name, ours) = ("cat".to_owned(), Reading::of(getpid()).expect("ours"));
                let reading = Reading { moved, name, has_waited: false, ..ours };
                let words = "cat - f".to_owned();
                let member = Member::new(pid, reading);
                family.members.push(Member { seen_ended: true, words, ..member });
            }
            let [first, mid, last] = [first, mid, last].map(id);
            let joints = [Joint::new(first, mid), Joint::new(mid, last)];
            family.joints.extend([1, 2].into_iter().zip(joints));
            family.joints.values().map(|joint| family.through(joint)).collect::<Vec<_>>()
        };
        let mib = 1 << 20;
        // Part of it is spliced.
        let all = [Through::About(90 * mib); 2];
        assert_eq!(told([90 * mib, 50 * mib, 40 * mib, 90 * mib]), all);
        // It is written to a file as well.
        let tee = [Through::Agreed(90 * mib), Through::About(90 * mib)];
        assert_eq!(told([90 * mib, 90 * mib, 180 * mib, 90 * mib]), tee);
        // Half of it is left out, and the last one read as much of its own files.
        let filter = [Through::Agreed(90 * mib), Through::About(40 * mib)];
        assert_eq!(told([90 * mib, 90 * mib, 40 * mib, 90 * mib]), filter);
        // It read less than was written, and passed on that.
        let part = [Through::About(50 * mib), Through::Agreed(40 * mib)];
        assert_eq!(told([90 * mib, 50 * mib, 40 * mib, 40 * mib]), part);
        // It read another file, and nothing of the pipe that was full.
        let other = [Through::About(mib), Through::Agreed(90 * mib)];
        assert_eq!(told([mib, 90 * mib, 90 * mib, 90 * mib]), other);
    }

    #[test]
    fn what_the_last_stage_moved_is_told_by_the_shell_that_waited_for_it() {
        let pid = |number| Pid::from_raw(number).expect("one");
        let mib = 1 << 20;
        let told = |[written, mid_read, mid_written]: [u64; 3], last: u64, shell: u64| {
            let size = PipeSize::new(None);
            let mut family = Family::new(Below::default(), size, CpuList::default(), None);
            for (number, parent, read_bytes, written_bytes) in [
                (1, None, 0, written),
                (2, None, mid_read, mid_written),
                (3, None, shell, 0),
                (4, Some(pid(3)), last, 0),
            ] {
                let moved = Some(Moved { read_bytes, written_bytes });
                let name = if number == 3 { "bash" } else { "cat" }.to_owned();
                let has_waited = number == 3;
                let ours = Reading::of(getpid()).expect("ours");
                let reading = Reading { moved, parent, name, has_waited, ..ours };
                let seen_ended = number < 4;
                family.members.push(Member { seen_ended, ..Member::new(pid(number), reading) });
            }
            let joints = [Joint::new(id(pid(1)), id(pid(2))), Joint::new(id(pid(2)), id(pid(4)))];
            family.joints.extend([1, 2].into_iter().zip(joints));
            family.joints.values().map(|joint| family.through(joint)).collect::<Vec<_>>()
        };
        let all = [Through::About(90 * mib); 2];
        assert_eq!(told([90 * mib, 50 * mib, 40 * mib], 7 * mib, 90 * mib), all);
        // The shell ran others too.
        let lesser = [Through::About(50 * mib), Through::About(40 * mib)];
        assert_eq!(told([90 * mib, 50 * mib, 40 * mib], 7 * mib, 300 * mib), lesser);
    }

    #[test]
    fn what_our_movers_do_not_count_is_what_their_reader_read() {
        let moved = |read_bytes, written_bytes| {
            let moved = Some(Moved { read_bytes, written_bytes });
            Member::new(getpid(), Reading { moved, ..Reading::of(getpid()).expect("ours") })
        };
        let (below, size) = (Below::default(), PipeSize::new(None));
        let family = Family::new(below, size, CpuList::default(), None);
        let told = |written, read, program| {
            let writer = Member { program, ..moved(0, written) };
            let reader = Member { program: None, ..moved(read, 0) };
            family.told(Some(&writer), Some(&reader), 0)
        };
        let (ours, mib) = (family.own, 1 << 20);
        // A line of progress is no part of them.
        assert_eq!([0, 80].map(|written| told(written, mib, ours)), [Through::About(mib); 2]);
        assert_eq!(told(0, mib, None), Through::Unknown);
        assert_eq!(told(0, 5000, ours), Through::Unknown);
        assert_eq!(told(mib, mib + 9, ours), Through::Agreed(mib));
    }

    #[test]
    fn what_a_reader_of_other_files_has_read_is_not_told_of_the_pipe() {
        let moved = |read_bytes, written_bytes| {
            let moved = Some(Moved { read_bytes, written_bytes });
            Member::new(getpid(), Reading { moved, ..Reading::of(getpid()).expect("ours") })
        };
        let (below, size) = (Below::default(), PipeSize::new(None));
        let family = Family::new(below, size, CpuList::default(), None);
        let (ours, mib) = (family.own, 1 << 20);
        let told = |written, names_file, program| {
            let writer = Member { program, ..moved(0, written) };
            let reader =
                Member { names_file, seen_ended: true, program: None, ..moved(40 * mib, 0) };
            family.told(Some(&writer), Some(&reader), mib)
        };
        for program in [None, ours] {
            assert_eq!(told(0, false, program), Through::About(40 * mib));
            assert_eq!(told(0, true, program), Through::Unknown);
        }
        // As last seen.
        assert_eq!(told(15 * mib, true, None), Through::AtLeast(15 * mib));
    }

    #[test]
    fn what_several_wrote_and_read_is_told_by_who_had_no_other_file() {
        let pid = |number| Pid::from_raw(number).expect("one");
        let mib = 1 << 20;
        // Two writers, and readers by their words.
        let told = |readers: &[(&str, u64)], seen_ended, most_bytes| {
            let (below, size) = (Below::default(), PipeSize::new(None));
            let mut family = Family::new(below, size, CpuList::default(), None);
            let last = 2 + i32::try_from(readers.len()).expect("few");
            let mut joint = Joint { most_bytes, ..Joint::new(id(pid(2)), id(pid(last))) };
            joint.moved[0] = [1, 2].map(|writer| (id(pid(writer)), 100 * mib)).into();
            for (number, (words, read_bytes)) in (3..).zip(readers) {
                let (words, has_waited) = match words.strip_prefix("waited ") {
                    Some(words) => (words, true),
                    None => (*words, false),
                };
                let name = words.split(' ').next().expect("one").to_owned();
                let moved = Some(Moved { read_bytes: *read_bytes, written_bytes: 0 });
                let ours = Reading::of(getpid()).expect("ours");
                let member = Member::new(pid(number), Reading { moved, name, has_waited, ..ours });
                let of = |fd| OpenPipe { fd, number: 7, is_read: true };
                let pipes = [0, 3].map(of).into_iter().take(1 + usize::from(words.contains("-u")));
                let (names_file, pipes) = (words.contains("file"), pipes.collect());
                let words = words.to_owned();
                family.members.push(Member { words, pipes, seen_ended, names_file, ..member });
                joint.moved[1].insert(id(pid(number)), *read_bytes);
            }
            (joint.others()[1], family.through(&joint))
        };
        assert_eq!(
            told(&[("wc", 20 * mib)], false, 0),
            (0, Through::AtLeast(20 * mib - START_BYTES))
        );
        assert_eq!(told(&[("wc", 20 * mib)], true, 0), (0, Through::About(20 * mib)));
        assert_eq!(told(&[("gzip", 20 * mib)], true, 0), (0, Through::About(20 * mib)));
        // What others read may be of other files.
        for reader in ["gzip", "cat file", "waited wc", "cat -u"] {
            let is_known = told(&[(reader, 20 * mib)], false, 0);
            assert_eq!(is_known, (0, Through::Unknown), "{reader}");
        }
        for reader in ["gzip file", "waited gzip"] {
            assert_eq!(told(&[(reader, 20 * mib)], true, 0), (0, Through::Unknown), "{reader}");
        }
        let several = [("cat", 2 * mib), ("gzip", 500 * mib), ("wc", mib), ("cat", 4000)];
        assert_eq!(told(&several, true, 0), (3, Through::AtLeast(3 * mib - 2 * START_BYTES)));
        // Who read less than was seen in it does not count what it moves.
        assert_eq!(told(&[("gzip", mib)], true, 2 * mib), (0, Through::Unknown));
        // Who slept before it read nothing of it.
        assert_eq!(told(&[("sleep", 4000), ("gzip", mib)], true, 0), (0, Through::About(mib)));
    }

    /// A family of a writer and a reader of these words, the reader below a shell that waited for
    /// it where that has counted something; the writer read and wrote, and the reader read, so much.
    fn told_of(
        [writer, reader]: [&str; 2],
        (read_bytes, written_bytes): (u64, u64),
        read: u64,
        shell: Option<u64>,
    ) -> Through {
        let pid = |number| Pid::from_raw(number).expect("one");
        let (below, size) = (Below::default(), PipeSize::new(None));
        let mut family = Family::new(below, size, CpuList::default(), None);
        let member = |number, words: &str, moved, seen_ended| {
            let name = words.trim_start_matches("/bin/").split(' ').next();
            let (name, words) = (name.unwrap_or_default(), words.to_owned());
            let ours = Reading::of(getpid()).expect("ours");
            let parent = (number == 2).then(|| pid(3));
            let (has_waited, moved) = (number == 3, Some(moved));
            let reading = Reading { name: name.to_owned(), parent, has_waited, moved, ..ours };
            let pipes =
                vec![OpenPipe { fd: u32::from(number == 1), number: 7, is_read: number != 1 }];
            let writes_file = words.contains(" -T ");
            let member = Member::new(pid(number), reading);
            let names_file = words.contains(" - ");
            Member { words, names_file, seen_ended, pipes, writes_file, program: None, ..member }
        };
        let of_reader = |read_bytes| Moved { read_bytes, written_bytes: 0 };
        let of_shell = of_reader(shell.unwrap_or(0));
        family.members = vec![
            member(1, writer, Moved { read_bytes, written_bytes }, true),
            member(2, reader, of_reader(read), false),
            member(3, "sh", of_shell, shell.is_some()),
        ];
        family.between(id(pid(1)), id(pid(2)))
    }

    #[test]
    fn who_writes_to_several_files_wrote_no_more_to_each_than_it_read() {
        let mib = 1 << 20;
        let of = |words, read: u64| {
            let moved = (20 * mib + 5000, 40 * mib);
            told_of([words, "cat - f"], moved, read, Some(read))
        };
        let capped = Through::About(20 * mib + 5000);
        assert_eq!(of("tee f", 40 * mib), capped);
        assert_eq!(of("/bin/tee f", 90 * mib), capped);
        assert_eq!(of("tee f", 20 * mib + 5000), capped);
        assert_eq!(of("cat -n", 40 * mib), Through::Agreed(40 * mib));
        assert_eq!(of("tee /dev/stdout", 40 * mib), Through::Agreed(40 * mib));
        // Of its own reading it counted nothing.
        let spliced = told_of(["tee f", "wc"], (5000, 40 * mib), 0, Some(40 * mib));
        assert_eq!(spliced, Through::Agreed(40 * mib));
    }

    #[test]
    fn of_a_writer_that_splices_the_reader_tells() {
        let mib = 1 << 20;
        let of = |words, read, shell| told_of(words, (2 * mib, 2 * mib), read, shell);
        let pv = "pv -q f";
        // As its shell counts, if the reader itself was seen to have read nearly as much.
        assert_eq!(of([pv, "cat"], 19 * mib, Some(20 * mib)), Through::About(20 * mib));
        assert_eq!(
            of([pv, "cat"], 9 * mib, Some(20 * mib)),
            Through::AtLeast(9 * mib - START_BYTES)
        );
        assert_eq!(of([pv, "cat"], 19 * mib, None), Through::AtLeast(19 * mib - START_BYTES));
        // What it read may have been other files.
        for reader in ["md5sum", "cat - g"] {
            assert_eq!(of([pv, reader], 19 * mib, Some(20 * mib)), Through::AtLeast(2 * mib));
            assert_eq!(of([pv, reader], 19 * mib, None), Through::AtLeast(2 * mib));
        }
        assert_eq!(of([pv, "md5sum"], 0, None), Through::AtLeast(2 * mib));
        assert_eq!(of(["cat f", "md5sum"], 0, None), Through::About(2 * mib));
        assert_eq!(of(["cat f", "md5sum"], 19 * mib, None), Through::AtLeast(2 * mib));
        assert_eq!(of(["cat f", "cat - g"], 19 * mib, Some(20 * mib)), Through::About(2 * mib));
        assert_eq!(of([pv, "cat"], 2 * mib, Some(2 * mib)), Through::Agreed(2 * mib));
    }

    #[test]
    fn of_a_reader_that_splices_the_writer_tells_if_it_has_no_other_output() {
        let mib = 1 << 20;
        let of = |words, read| told_of(words, (40 * mib, 40 * mib), read, Some(read));
        assert_eq!(of(["head f", "pv -q"], 4 * mib), Through::About(40 * mib));
        let least = Through::AtLeast(4 * mib - START_BYTES);
        assert_eq!(of(["sort -T d", "pv -q"], 4 * mib), least);
        assert_eq!(of(["head f", "cat"], 4 * mib), Through::About(4 * mib));
        assert_eq!(of(["head f", "pv -q"], 40 * mib), Through::Agreed(40 * mib));
        // It left the rest in the pipe.
        assert_eq!(of(["yes", "pv -q"], 39 * mib), Through::About(39 * mib));
        assert_eq!(of(["yes", "pv -q"], 38 * mib), Through::About(40 * mib));
    }

    #[test]
    fn one_output_is_one_pipe_whatever_is_said_and_kept_beside_it() {
        let ends = |ends: &[(u32, u64, bool)], writes_file| {
            let pipes = ends.iter().map(|(fd, number, is_read)| OpenPipe {
                fd: *fd,
                number: *number,
                is_read: *is_read,
            });
            let member = Member::new(getpid(), Reading::of(getpid()).expect("ours"));
            Member { pipes: pipes.collect(), writes_file, ..member }.has_one_output()
        };
        let (input, output) = ((0, 7, true), (1, 8, false));
        assert!(ends(&[input, output], false));
        assert!(ends(&[output, (2, 9, false), (5, 8, false)], false));
        assert!(ends(&[output, (5, 10, false), (6, 10, true)], false), "it tells itself");
        assert!(!ends(&[output, (5, 10, false)], false));
        let (_read, write) = rustix::pipe::pipe().expect("a pipe");
        let ours = process::open(getpid()).0;
        let inherited = ours.iter().find(|pipe| i64::from(pipe.fd) == i64::from(write.as_raw_fd()));
        let inherited = inherited.expect("it is open");
        assert!(ends(&[output, (inherited.fd, inherited.number, false)], false));
        assert!(!ends(&[output], true));
        assert!(!ends(&[input], false));
        assert!(!ends(&[], false));
    }
}
