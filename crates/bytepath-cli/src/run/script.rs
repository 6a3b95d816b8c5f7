//! What a line of shell is made of, as far as that can be told without a doubt.
//!
//! A pipeline of plain stages is taken apart: each stage's text, unchanged, is then run by a shell
//! of its own, and means there what it means in the whole. All else is left to one shell as it is,
//! and watched from outside. So this need not know the shell's grammar, only what it does *not*
//! know: every letter that could mean more than it seems ends the attempt, with the reason.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

use bytepath_lab::peers;

/// A line that was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// The stages, in order, at least two.
    Stages(Vec<Part>),
    /// It is run as it is, for this reason.
    Whole(&'static str),
}

/// A stage of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) text: OsString,
    /// What a shell is given to run it.
    pub(super) shell_text: OsString,
    /// What that shell has to find as SHLVL, so that the stage finds what it would in the whole.
    pub(super) shell_level: Option<i64>,
    /// Its words with their quotes, without its redirections.
    pub(super) words: Vec<String>,
    /// Whether its input, and its output, is redirected: its pipe may then carry nothing.
    pub(super) redirects: [bool; 2],
}

/// Shells in which a stage of a pipeline is a process of its own with the same text, options and
/// variables as a shell that is started with that text.
const SHELLS: &[&str] = &["sh", "dash", "bash", "ash"];

/// Words that begin something longer than a command, or end it.
const RESERVED: &[&str] = &[
    "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while",
];

/// Variables that differ between shells started with the same environment.
const OF_THE_SHELL: &[&str] = &[
    "_",
    "BASH",
    "DIRSTACK",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "LINENO",
    "PIPESTATUS",
    "PPID",
    "RANDOM",
    "SECONDS",
    "SHLVL",
    "SRANDOM",
];

/// What a shell does itself under these names, in any of [`SHELLS`]; bash finds its own by itself.
const BUILT_IN: &[&str] = &[
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "newgrp",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// What runs lines of its own in the same shell, whichever that is, and so may show its variables.
const RUNS_LINES: &[&str] = &[".", "eval", "source", "trap"];

/// What runs those also where a function has their name.
const RUNS_BUILTINS: &[&str] = &["builtin", "command"];

/// What shows bash's own variables, or does what shows them; declare and its like also end with
/// another code in a pipeline, where they fail.
const SHOWING: &[&str] = &["builtin", "command", "declare", "export", "readonly", "set", "typeset"];

/// What bash complains of as it starts, where it is wrong.
const COMPLAINED_OF: &[&str] = &["BASH_COMPAT", "BASH_XTRACEFD"];

/// The movers that stand in for others of the same name.
const MOVERS: &[&str] = &["cat", "pv", "tee"];

/// Whether a program of this name moves bytes as a command of bytepath does.
pub(super) fn is_mover(name: &OsStr) -> bool {
    MOVERS.iter().any(|mover| name == *mover)
}

/// What runs movers in the place of others.
#[derive(Clone)]
pub(super) struct Own {
    pub(super) program: OsString,
    /// Behind the name of each: options that ours take besides.
    pub(super) options: &'static [&'static str],
}

/// Takes a line apart, for a shell of this name. Movers are run as commands of a program, where one is
/// given.
pub(super) fn taken_apart(line: &OsStr, path: &Path, own: Option<&Own>) -> Script {
    let shell = path.file_name().unwrap_or_default();
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_bash = || is_bash_within(path);
    if !SHELLS.iter().any(|known| shell == *known) {
        Script::Whole("its shell is not one whose stages are known to stand alone")
    } else if is_set("BASH_ENV") && shell != "sh" && is_bash() {
        Script::Whole("BASH_ENV names a file that would be run once a stage")
    } else if (is_set("SHELLOPTS") || is_set("BASHOPTS")) && is_bash() {
        Script::Whole("SHELLOPTS or BASHOPTS set options that may be meant for the whole")
    } else if shell == "bash" && is_outermost() && (is_from_afar() || has_socket_as_input()) {
        Script::Whole("its shell may run ~/.bashrc first, which would be run once a stage")
    } else if (COMPLAINED_OF.iter().any(|name| is_set(name)) || is_too_deep()) && is_bash()
        || is_nowhere()
        || complains_by_itself(path)
    {
        Script::Whole("its shell may complain as it starts, which it would once a stage")
    } else {
        stages(line.as_bytes(), path, own)
    }
}

/// Whether a shell is bash, under its own name or as `sh`.
fn is_bash_within(shell: &Path) -> bool {
    let found = || peers::found(shell)?.canonicalize().ok();
    shell.ends_with("bash") || found().is_some_and(|program| program.ends_with("bash"))
}

/// Whether bash, or one in it, would find that it is the thousandth shell.
fn is_too_deep() -> bool {
    shell_level().is_some_and(|level| level + 1 >= SHELLS_MAX)
}

/// How many shells there are, one in the other, as far as the environment tells.
fn shell_level() -> Option<i64> {
    std::env::var("SHLVL").ok()?.trim().parse().ok()
}

/// Whether bash would complain of the locale, or of a function that it inherits, which only it knows.
fn complains_by_itself(shell: &Path) -> bool {
    const EVERYWHERE: [&str; 4] = ["C", "POSIX", "C.UTF-8", "C.utf8"];
    let locale = std::env::var_os("LC_ALL").filter(|locale| !locale.is_empty());
    let is_elsewhere = locale.is_some_and(|locale| EVERYWHERE.iter().all(|known| locale != *known));
    (is_elsewhere || functions_are_inherited()) && is_bash_within(shell) && {
        let asked = Command::new(shell).args(["-c", ":"]).stdin(Stdio::null()).output();
        asked.is_ok_and(|asked| !asked.stderr.is_empty())
    }
}

/// What a shell that is started here calls itself, and all that it starts find.
fn level_of_stages() -> i64 {
    shell_level().unwrap_or(0).saturating_add(1).max(0)
}

/// Whether the working directory is gone.
fn is_nowhere() -> bool {
    std::env::current_dir().is_err()
}

/// From so many on, one in the other, bash begins anew.
const SHELLS_MAX: i64 = 999;

/// Whether bash would take itself for the first shell there is.
fn is_outermost() -> bool {
    !(1..SHELLS_MAX).contains(&shell_level().unwrap_or(0))
}

/// Whether bash would take itself for one that sshd has started, as Debian's builds look.
fn is_from_afar() -> bool {
    ["SSH_CLIENT", "SSH2_CLIENT"].iter().any(|name| std::env::var_os(name).is_some())
}

fn has_socket_as_input() -> bool {
    rustix::fs::fstat(rustix::stdio::stdin()).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket
    })
}

fn stages(line: &[u8], shell: &Path, own: Option<&Own>) -> Script {
    let (stages, stage) = (Vec::new(), Stage::default());
    let (is_bash, replaces_itself) = (shell.ends_with("bash"), is_bash_within(shell));
    if replaces_itself && line.windows(5).any(|letters| letters == b"SHLVL") {
        return Script::Whole(
            "it names SHLVL, which stages are given so that they find it as it was",
        );
    }
    let mut reader = Reader { line, at: 0, is_bash, replaces_itself, own, lines: 0, stages, stage };
    match reader.read() {
        Err(why) => Script::Whole(why),
        Ok(()) if reader.stages.len() < 2 => Script::Whole("it is a single command"),
        Ok(()) => Script::Stages(reader.stages),
    }
}

/// The kernel starts no program with a longer word, with the NUL at its end (MAX_ARG_STRLEN).
fn word_bytes_max() -> usize {
    32 * rustix::param::page_size()
}

/// Whether a letter may stand in the name of a variable.
fn is_of_name(letter: &u8) -> bool {
    letter.is_ascii_alphanumeric() || *letter == b'_'
}

/// Whether a word in front of a program sets a variable, to every shell.
fn is_assignment(word: &[u8]) -> bool {
    let name = word.split(|byte| *byte == b'=').next().unwrap_or_default();
    name.len() < word.len() && is_variable(name)
}

/// Whether a variable can have this name.
pub(super) fn is_variable(name: &[u8]) -> bool {
    let begins = name.first().is_some_and(|first| !first.is_ascii_digit());
    begins && name.iter().all(is_of_name)
}

/// Whether a word begins as what is set in an array, and may end in the subscript: bash goes on with
/// that, to the bracket that belongs to the first, whatever is between.
fn opens_subscript(word: &[u8]) -> bool {
    let bracket = word.iter().position(|byte| *byte == b'[');
    let Some((name, rest)) = bracket.map(|at| word.split_at(at)) else { return false };
    let count = |wanted: u8| rest.iter().filter(|byte| **byte == wanted).count();
    let is_quoted = rest.iter().any(|byte| b"'\"\\".contains(byte));
    !name.is_empty() && name.iter().all(is_of_name) && (is_quoted || count(b'[') != count(b']'))
}

fn inserted(text: &[u8], at: usize, more: &[u8]) -> Vec<u8> {
    let (before, behind) = text.split_at(at);
    [before, more, behind].concat()
}

/// A word that means itself to a shell.
fn quoted(word: &OsStr) -> Vec<u8> {
    let parts: Vec<&[u8]> = word.as_bytes().split(|byte| *byte == b'\'').collect();
    [b"'", &parts.join(&br"'\''"[..])[..], b"'"].concat()
}

/// The stage that is being read.
#[derive(Default)]
struct Stage {
    text: Vec<u8>,
    /// The word that is being read, if one has begun, with its quotes.
    word: Option<Vec<u8>>,
    /// Those before, but for redirections.
    words: Vec<String>,
    /// Where in the text its program stands.
    program: Option<Range<usize>>,
    /// Whether its program is one of [`RUNS_BUILTINS`], and what that runs may come next.
    runs_next: bool,
    /// A redirection that still lacks its word.
    redirects: bool,
    /// Whether there was one.
    redirected: bool,
    /// Whether there was one of its input, and of its output.
    redirected_ends: [bool; 2],
}

impl Stage {
    /// Where "exec" can stand, so that its program replaces its shell, as it does in a pipeline that
    /// one shell runs: it then gets the signals that are meant for it. Bash sees to this by itself.
    fn exec_at(&self) -> Option<usize> {
        let (start, name) = self.plain_program()?;
        // A shell that was to be replaced by what is not there says so in other words.
        let can = !BUILT_IN.contains(&name) && peers::found(name).is_some();
        can.then_some(start)
    }

    /// Where the name of a mover stands, if it has no path and is looked for as all others are.
    fn mover_at(&self) -> Option<Range<usize>> {
        let (start, name) = self.plain_program()?;
        is_mover(OsStr::new(name)).then_some(start..start + name.len())
    }

    /// Where its program stands, and the name, if it means the same in front of other words.
    fn plain_program(&self) -> Option<(usize, &str)> {
        let Range { start, end } = self.program.clone()?;
        let name = str::from_utf8(&self.text[start..end]).ok()?;
        let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"_-+./".contains(&letter);
        let sets_path = self.text[..start].windows(5).any(|word| word == b"PATH=");
        (name.bytes().all(is_plain) && !sets_path).then_some((start, name))
    }
}

/// Whether bash, also as `sh`, would know functions from the start, under names of programs; no other
/// shell would.
fn functions_are_inherited() -> bool {
    std::env::vars_os().any(|(name, _)| name.as_bytes().starts_with(b"BASH_FUNC_"))
}

/// Whether it would know one of this name.
pub(super) fn is_inherited_function(name: &str) -> bool {
    // Some older ones end otherwise.
    let is_set = |end: &&str| std::env::var_os(format!("BASH_FUNC_{name}{end}")).is_some();
    ["%%", "()"].iter().any(is_set)
}

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
    /// It knows here-strings and |&.
    is_bash: bool,
    /// It is bash, which gives its process to the last program, and then counts itself as gone.
    replaces_itself: bool,
    own: Option<&'a Own>,
    /// Newlines, in quotes, of the stages before.
    lines: usize,
    stages: Vec<Part>,
    stage: Stage,
}

type Doubt = &'static str;

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Doubt> {
        while let Some(letter) = self.take() {
            match letter {
                b' ' | b'\t' => self.between(letter)?,
                b'\'' => self.in_single_quotes()?,
                b'"' => self.in_double_quotes()?,
                b'\\' => {
                    let next = self.take().filter(|next| *next != b'\n');
                    self.add(&[b'\\', next.ok_or("it goes on behind a backslash")?]);
                }
                b'$' => self.dollar()?,
                b'|' => self.pipe()?,
                b'<' | b'>' => self.redirection(letter)?,
                b'#' if self.stage.word.is_none() => return Err("it has a comment"),
                _ => self.plain(letter)?,
            }
        }
        self.end_of_stage(b"")
    }

    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let letter = self.peek()?;
        self.at += 1;
        Some(letter)
    }

    fn take_if(&mut self, wanted: u8) -> bool {
        let is = self.peek() == Some(wanted);
        self.at += usize::from(is);
        is
    }

    /// Letters of a word.
    fn add(&mut self, letters: &[u8]) {
        self.stage.text.extend(letters);
        self.stage.word.get_or_insert_default().extend(letters);
    }

    fn plain(&mut self, letter: u8) -> Result<(), Doubt> {
        match letter {
            b';' | b'\n' => Err("it is a list of commands"),
            b'&' => Err("it is a list, or goes on in the background"),
            b'(' | b')' => Err("it has a subshell, a function or a process substitution"),
            b'`' => Err("it has a command substitution"),
            _ => {
                self.add(&[letter]);
                Ok(())
            }
        }
    }

    fn between(&mut self, letter: u8) -> Result<(), Doubt> {
        self.end_of_word()?;
        self.stage.text.push(letter);
        Ok(())
    }

    fn end_of_word(&mut self) -> Result<(), Doubt> {
        let Some(word) = self.stage.word.take() else { return Ok(()) };
        if std::mem::take(&mut self.stage.redirects) {
            return Ok(());
        }
        self.stage.words.push(String::from_utf8_lossy(&word).into_owned());
        if opens_subscript(&word) {
            return Err("it may have a subscript that goes on");
        }
        let is_program = self.stage.program.is_none() && !is_assignment(&word);
        if is_program && word.starts_with(b"%") {
            return Err("it names a job, where a shell of its own would look for one");
        }
        if is_program || self.stage.runs_next {
            let bare: Vec<u8> =
                word.iter().copied().filter(|byte| !b"'\"\\$".contains(byte)).collect();
            let is_any = |names: &[&str]| names.iter().any(|name| bare == name.as_bytes());
            if is_any(RUNS_LINES) || (self.replaces_itself && is_any(SHOWING)) {
                return Err("it may show variables that differ in a shell of its own");
            }
            let is_option = !is_program && bare.starts_with(b"-");
            self.stage.runs_next = is_option || is_any(RUNS_BUILTINS);
        }
        if is_program {
            let end = self.stage.text.len();
            self.stage.program = Some(end - word.len()..end);
        }
        match RESERVED.iter().any(|reserved| word == reserved.as_bytes()) {
            true => Err("it has a compound command, or a word that may belong to one"),
            false => Ok(()),
        }
    }

    fn in_single_quotes(&mut self) -> Result<(), Doubt> {
        self.add(b"'");
        loop {
            let letter = self.take().ok_or("a quote is not closed")?;
            self.add(&[letter]);
            if letter == b'\'' {
                return Ok(());
            }
        }
    }

    fn in_double_quotes(&mut self) -> Result<(), Doubt> {
        self.add(b"\"");
        loop {
            match self.take().ok_or("a quote is not closed")? {
                b'"' => {
                    self.add(b"\"");
                    return Ok(());
                }
                b'\\' => {
                    let next = self.take().ok_or("a quote is not closed")?;
                    self.add(&[b'\\', next]);
                }
                b'$' => self.dollar()?,
                b'`' => return Err("it has a command substitution"),
                letter => self.add(&[letter]),
            }
        }
    }

    /// A variable by its bare name, or a dollar that is just one.
    fn dollar(&mut self) -> Result<(), Doubt> {
        self.add(b"$");
        let braces = self.take_if(b'{');
        let rest = &self.line[self.at..];
        let name = &rest[..rest.iter().take_while(|letter| is_of_name(letter)).count()];
        let of_the_shell = |own: &str| match own {
            "BASH" => name.starts_with(b"BASH") || name.starts_with(b"EPOCH"),
            own => name == own.as_bytes(),
        };
        let after = rest.get(name.len()).copied();
        if name.first().is_some_and(u8::is_ascii_digit)
            || OF_THE_SHELL.iter().any(|own| of_the_shell(own))
        {
            return Err("it asks the shell about itself");
        }
        match (braces, name.is_empty(), after) {
            (true, false, Some(b'}')) => {
                self.at += name.len() + 1;
                self.add(&[b"{", name, b"}"].concat());
                Ok(())
            }
            (true, ..) => Err("it has an expansion of more than a name"),
            (false, false, _) => {
                self.at += name.len();
                self.add(name);
                Ok(())
            }
            (false, true, None | Some(b' ' | b'\t' | b'/' | b'.' | b',' | b'"' | b'|')) => Ok(()),
            (false, true, Some(_)) => Err("it has a substitution, or asks the shell about itself"),
        }
    }

    fn pipe(&mut self) -> Result<(), Doubt> {
        if self.take_if(b'|') {
            return Err("it is a list of commands");
        }
        let joined = self.take_if(b'&');
        if joined && !self.is_bash {
            return Err("its shell may know no |&");
        }
        self.end_of_stage(if joined { b" 2>&1" } else { b"" })
    }

    fn end_of_stage(&mut self, more: &[u8]) -> Result<(), Doubt> {
        self.end_of_word()?;
        let stage = std::mem::take(&mut self.stage);
        if stage.redirects || stage.words.is_empty() {
            return Err("a stage is not complete");
        }
        if stage.program.is_none() {
            return Err("a stage has no program");
        }
        let is_function = |at: &Range<usize>| {
            str::from_utf8(&stage.text[at.clone()]).is_ok_and(is_inherited_function)
        };
        let mover = stage.mover_at().filter(|at| !(self.replaces_itself && is_function(at)));
        let own = self.own.zip(mover);
        let is_own = own.is_some();
        let exec_at = if self.replaces_itself { None } else { stage.exec_at() };
        let exec: &[u8] = if self.replaces_itself { b"" } else { b"exec " };
        // With a redirection it stays, finds what the whole would, and names to a person what it runs.
        let stays = stage.redirected || !more.is_empty();
        let shell_level = (self.replaces_itself && !stays).then(level_of_stages);
        // At its end a space may be one that is meant.
        let shown = stage.text.trim_ascii_start();
        let (shown, given) = match (own, exec_at) {
            (Some((own, name)), _) => {
                let options: Vec<u8> = own
                    .options
                    .iter()
                    .flat_map(|option| [b" ", option.as_bytes()].concat())
                    .collect();
                let text = inserted(&stage.text, name.end, &options);
                (
                    inserted(shown, name.start - (stage.text.len() - shown.len()), b"bytepath "),
                    inserted(&text, name.start, &[exec, &quoted(&own.program), b" "].concat()),
                )
            }
            (None, Some(at)) => (shown.to_vec(), inserted(&stage.text, at, exec)),
            (None, None) => (shown.to_vec(), stage.text.clone()),
        };
        let before = match shell_level {
            // Whether it replaces itself, it alone knows: then it takes one off what it found, and
            // else the program gets this.
            Some(level) => format!("SHLVL={level} "),
            // An option of the shell's, if nothing stood before it.
            None if given.starts_with(b"-") || given.starts_with(b"+") => " ".to_owned(),
            None => String::new(),
        };
        // Messages tell of lines.
        let lines = b"\n".repeat(self.lines);
        self.lines += stage.text.iter().filter(|byte| **byte == b'\n').count();
        let shell_text = [&lines[..], before.as_bytes(), &given, more].concat();
        if shell_text.len() >= word_bytes_max() {
            return Err("a stage is too long to be taken apart");
        }
        let [text, shell_text] = [[&shown, more].concat(), shell_text].map(OsString::from_vec);
        let (mut words, redirects) = (stage.words, stage.redirected_ends);
        if is_own {
            let is_program = |word: &String| !is_assignment(word.as_bytes());
            let program = words.iter().position(is_program).unwrap_or(0);
            words.insert(program, "bytepath".to_owned());
        }
        self.stages.push(Part { text, shell_text, shell_level, words, redirects });
        Ok(())
    }

    /// `<` or `>` with what belongs to it; the word follows.
    fn redirection(&mut self, letter: u8) -> Result<(), Doubt> {
        // A number in front belongs to it, and is no word.
        let mut end = usize::from(letter == b'>');
        match self.stage.word.take() {
            Some(word) if word.iter().all(u8::is_ascii_digit) => {
                // One that is too large for a number is no end of a pipe either.
                end = str::from_utf8(&word).ok().and_then(|it| it.parse().ok()).unwrap_or(end);
            }
            Some(word) if word.starts_with(b"{") && self.is_bash => {
                return Err("a redirection may set a variable");
            }
            word => {
                self.stage.word = word;
                self.end_of_word()?;
            }
        }
        if std::mem::replace(&mut self.stage.redirects, true) {
            return Err("a redirection is not complete");
        }
        self.stage.redirected = true;
        self.stage.redirected_ends.get_mut(end).into_iter().for_each(|it| *it = true);
        self.stage.text.push(letter);
        let rest = &self.line[self.at..];
        let more = match letter {
            b'<' if rest.starts_with(b"<<") && self.is_bash => 2,
            b'<' if rest.starts_with(b"<") => return Err("it has a here-document"),
            b'<' => usize::from(rest.starts_with(b"&") || rest.starts_with(b">")),
            _ => usize::from([&b">"[..], b"&", b"|"].iter().any(|more| rest.starts_with(more))),
        };
        let closes = rest.strip_prefix(b"&-").map(<[u8]>::first);
        if closes.is_some_and(|next| next.is_some_and(|next| !b" \t|".contains(next))) {
            // To bash that is one word, and the next begins here.
            return Err("something is glued to a redirection that closes");
        }
        self.stage.text.extend(&rest[..more]);
        self.at += more;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(line: &str, shell: &str) -> Option<Vec<String>> {
        let text = |stage: &Part| stage.text.to_string_lossy().trim_end().to_owned();
        match taken_apart(OsStr::new(line), Path::new(shell), None) {
            Script::Stages(stages) => Some(stages.iter().map(text).collect()),
            Script::Whole(_) => None,
        }
    }

    #[test]
    fn plain_stages_are_taken_apart_and_keep_their_text() {
        let cases: &[(&str, &[&str])] = &[
            ("cat f | wc -c", &["cat f", "wc -c"]),
            ("a|b|c", &["a", "b", "c"]),
            ("grep 'a|b' f | tr \"|\" x", &["grep 'a|b' f", "tr \"|\" x"]),
            ("echo a\\|b | cat", &["echo a\\|b", "cat"]),
            ("a 2>&1 >f | b <$HOME/g", &["a 2>&1 >f", "b <$HOME/g"]),
            ("a >| f | b", &["a >| f", "b"]),
            ("x=1 env | grep \"${x}\" 2>/dev/null", &["x=1 env", "grep \"${x}\" 2>/dev/null"]),
            ("grep 'x$' | sed s/a$/b/", &["grep 'x$'", "sed s/a$/b/"]),
            ("printf %s {a,b} | cat", &["printf %s {a,b}", "cat"]),
            ("echo \"a\\\"|b\" | cat", &["echo \"a\\\"|b\"", "cat"]),
        ];
        for (line, stages) in cases {
            assert_eq!(apart(line, "sh").as_deref(), Some(&stages.map_strings()[..]), "{line}");
        }
        assert_eq!(apart("a |& b", "bash"), Some(vec!["a  2>&1".into(), "b".into()]));
        assert_eq!(
            apart("a <<<\"x y\" | b", "bash"),
            Some(vec!["a <<<\"x y\"".into(), "b".into()])
        );
    }

    trait MapStrings {
        fn map_strings(&self) -> Vec<String>;
    }

    impl MapStrings for &[&str] {
        fn map_strings(&self) -> Vec<String> {
            self.iter().map(|text| (*text).to_owned()).collect()
        }
    }

    #[test]
    fn a_program_replaces_a_shell_that_would_wait_for_it() {
        let cases = [
            ("cat f", "exec cat f"),
            ("LC_ALL=C sort", "LC_ALL=C exec sort"),
            ("<f >g /bin/cat -", "<f >g exec /bin/cat -"),
            ("2>&1 cat", "2>&1 exec cat"),
            ("echo a", "echo a"),
            ("no-such-program", "no-such-program"),
            ("PATH=/nowhere cat", "PATH=/nowhere cat"),
            ("'cat' f", "'cat' f"),
            ("$x f", "$x f"),
        ];
        for (text, given) in cases {
            assert_eq!(given_to("dash", text, None).1, given);
            assert_eq!(given_to("bash", text, None).1, text);
        }
    }

    /// The first stage, as it is shown and as the shell gets it.
    fn given_to(shell: &str, text: &str, own: Option<&str>) -> (String, String) {
        let own = own.map(|program| Own { program: program.into(), options: &[] });
        given_to_by(shell, text, own.as_ref())
    }

    fn given_to_by(shell: &str, text: &str, own: Option<&Own>) -> (String, String) {
        let line = format!("{text}|b");
        match taken_apart(OsStr::new(&line), Path::new(shell), own) {
            Script::Stages(stages) => {
                let [text, given] = [&stages[0].text, &stages[0].shell_text]
                    .map(|text| text.to_string_lossy().into_owned());
                let level = stages[0].shell_level.map(|level| format!("SHLVL={level} "));
                let given = given.strip_prefix(level.as_deref().unwrap_or_default());
                (text, given.expect("it gets the level that is told").to_owned())
            }
            Script::Whole(why) => panic!("{text}: {why}"),
        }
    }

    #[test]
    fn bash_stays_and_gets_the_words_alone_where_a_stage_redirects() {
        let level = |text: &str| match taken_apart(OsStr::new(text), Path::new("bash"), None) {
            Script::Stages(stages) => {
                let given = stages[0].shell_text.to_string_lossy().into_owned();
                assert_eq!(given.starts_with("SHLVL="), stages[0].shell_level.is_some(), "{text}");
                stages[0].shell_level.is_some()
            }
            Script::Whole(why) => panic!("{text}: {why}"),
        };
        assert!(level("cat f|b"));
        for text in ["cat f >g|b", "<f cat|b", "2>&1 cat|b", "cat|&b"] {
            assert!(!level(text), "{text}");
        }
    }

    #[test]
    fn movers_that_are_named_plainly_are_run_as_our_own() {
        let cases = [
            ("cat f", "bytepath cat f", "'/o w/it'\\''s' cat f"),
            (" LC_ALL=C pv -q", "LC_ALL=C bytepath pv -q", " LC_ALL=C '/o w/it'\\''s' pv -q"),
            ("<f >g tee x", "<f >g bytepath tee x", "<f >g '/o w/it'\\''s' tee x"),
        ];
        for (text, shown, given) in cases {
            let of = |shell| given_to(shell, text, Some("/o w/it's"));
            assert_eq!(of("bash"), (shown.to_owned(), given.to_owned()));
            let exec = given.replace("'/o", "exec '/o");
            assert_eq!(of("dash"), (shown.to_owned(), exec));
        }
        let others = ["'cat' f", "/bin/cat f", "$x cat", "cats f", "PATH=/nowhere cat"];
        let no_assignments =
            ["a-b=1 cat f", "a[0]=1 cat f", "PATH+=:/x cat f", "=1 cat f", "1a=1 cat"];
        for text in others.into_iter().chain(no_assignments) {
            assert_eq!(given_to("bash", text, Some("/own")), (text.to_owned(), text.to_owned()));
            assert!(!given_to("dash", text, Some("/own")).1.contains("/own"), "{text}");
        }
        assert_eq!(given_to("dash", "a-b=1 cat f", None).1, "a-b=1 cat f");
    }

    #[test]
    fn what_redirects_an_end_of_its_pipe_is_told_apart_from_what_redirects_messages() {
        for (text, wanted) in [
            ("a >f", [false, true]),
            ("1>>f a", [false, true]),
            ("a 2>&1 >f", [false, true]),
            ("a <f", [true, false]),
            ("a 0<&3 1>&2", [true, true]),
            ("a 2>f 3<g 10>h", [false, false]),
            ("a", [false, false]),
        ] {
            match taken_apart(OsStr::new(&format!("{text}|b")), Path::new("sh"), None) {
                Script::Stages(stages) => {
                    let told: Vec<_> = stages.iter().map(|stage| stage.redirects).collect();
                    assert_eq!(told, [wanted, [false, false]], "{text}");
                }
                Script::Whole(why) => panic!("{text}: {why}"),
            }
        }
    }

    #[test]
    fn words_are_told_without_redirections() {
        let words = |text: &str, own: Option<&Own>| match taken_apart(
            OsStr::new(&format!("{text}|b")),
            Path::new("bash"),
            own,
        ) {
            Script::Stages(stages) => stages[0].words.clone(),
            Script::Whole(why) => panic!("{text}: {why}"),
        };
        assert_eq!(words("<rnd x=1 >'a b' gzip -1 2>&1", None), ["x=1", "gzip", "-1"]);
        assert_eq!(words("'my prog' \"a b\" <<<x", None), ["'my prog'", "\"a b\""]);
        let own = Own { program: "/o".into(), options: &[] };
        assert_eq!(words("<f x=1 cat -", Some(&own)), ["x=1", "bytepath", "cat", "-"]);
    }

    #[test]
    fn our_own_movers_get_their_options_behind_their_names() {
        let own = Own { program: "/o".into(), options: &["--no-enlarge"] };
        let (shown, given) = given_to_by("bash", "x=1 cat f", Some(&own));
        assert_eq!((&*shown, &*given), ("x=1 bytepath cat f", "x=1 '/o' cat --no-enlarge f"));
        assert_eq!(given_to_by("dash", "cat", Some(&own)).1, "exec '/o' cat --no-enlarge");
    }

    #[test]
    fn a_stage_is_never_an_option_of_its_shell() {
        assert_eq!(given_to("bash", "-x", None), ("-x".to_owned(), "-x".to_owned()));
        assert_eq!(given_to("dash", "+x y", None).1, " +x y");
    }

    #[test]
    fn what_may_mean_more_is_left_whole() {
        let lines = [
            "",
            "cat f",
            "a | b; c",
            "a && b | c",
            "a || b",
            "a | b &",
            "(a) | b",
            "a | { b; }",
            "! a | b",
            "while read x | b",
            "a | if",
            "a $(b) | c",
            "a `b` | c",
            "a <<E | b",
            "a | b\nc",
            "a $$ | b",
            "a $1 | b",
            "a ${x:=1} | b",
            "a $RANDOM | b",
            "a $'x' | b",
            "a | 'b",
            "a | \"b",
            "a |",
            "| b",
            "a | | b",
            "a > | b",
            "a >& | b",
            "a > > f | b",
            "a # b | c",
            "a <(b) | c",
            "a &> f | b",
            "a | time b",
            "a |& b",
            "a <<< x | b",
            "a ${x | b",
            "a \\",
            "a $BASHPID | b",
            "echo \"$(a | b)\" | c",
            "a $@ | b",
            "a $EPOCHSECONDS | b",
            "f() { a; } | b",
            "[[ x | y ]]",
            "a | x[1|2]=5",
            "x[1 | 2]=5 | b",
            "eval a | b",
            "x=1 . ./a | b",
            "a | 'source' b",
            "\\trap 'a' EXIT | b",
            "command eval a | b",
            "a | x=1 'command' -p -- command . ./b",
        ];
        for line in lines {
            assert_eq!(apart(line, "sh"), None, "{line}");
        }
        assert_eq!(apart("a | b", "fish"), None);
    }

    /// A word that is quoted is no reserved word, and one behind others only looks like one: the
    /// shell takes it for an argument, and leaving it whole does no harm.
    #[test]
    fn a_quoted_word_is_no_reserved_one() {
        assert_eq!(apart("'if' | b", "sh"), Some(vec!["'if'".into(), "b".into()]));
        assert_eq!(apart("grep done f | b", "sh"), None);
    }
}
