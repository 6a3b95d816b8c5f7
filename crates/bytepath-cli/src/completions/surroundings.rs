//! What commands take from their environment, and where they keep files of their own: for their manual pages.

/// What a page tells of: its name, what it means, and the commands that it is for.
pub(super) struct Told {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    commands: &'static [&'static str],
}

impl Told {
    const fn new(
        name: &'static str,
        meaning: &'static str,
        commands: &'static [&'static str],
    ) -> Told {
        Told { name, meaning, commands }
    }

    /// Whether it is for this command, or for one that this is a command of. Of the page without a command it all is.
    pub(super) fn concerns(&self, command: &str) -> bool {
        let is_of = |of: &&&str| match command.strip_prefix(**of) {
            Some(rest) => rest.is_empty() || rest.starts_with('-'),
            None => false,
        };
        command.is_empty() || self.commands.iter().any(|of| is_of(&of))
    }
}

/// Those whose arms are measured, or the like.
const MEASURE: &[&str] = &["bench", "explain", "fleet", "tour", "tune"];

pub(super) const ENVIRONMENT: &[Told] = &[
    Told::new(
        "NO_COLOR",
        "Where this is anything but empty, nothing is in colour.",
        &[
            "bench", "compare", "doctor", "explain", "history", "import", "pages", "pv", "report",
            "tour", "tune",
        ],
    ),
    Told::new(
        "TERM",
        "Where this is dumb, empty or not set, nothing is in colour and no line is drawn over. For pv it has to be dumb, and only colour goes.",
        &[
            "bench", "compare", "cp", "doctor", "explain", "history", "import", "pages", "pv",
            "report", "run", "tee", "tour", "tune",
        ],
    ),
    Told::new(
        "LC_ALL, LC_CTYPE, LANG",
        "The first of them that is not empty tells whether letters beyond ASCII are shown as they are.",
        &["bench", "cat", "cp", "pv", "report", "tee"],
    ),
    Told::new(
        "POSIXLY_CORRECT",
        "Where this is set, options end with the first operand; and cp makes the file that a dangling link names.",
        &["cat", "cp", "pv", "tee"],
    ),
    Told::new(
        "VERSION_CONTROL, SIMPLE_BACKUP_SUFFIX",
        "How backups are made and named, unless --backup and --suffix say so.",
        &["cp"],
    ),
    Told::new(
        "SHELL",
        "The shell, where it is the path of a program and --shell names none; else /bin/sh.",
        &["run", "bench-run"],
    ),
    Told::new(
        "BASH_ENV, SHELLOPTS, BASHOPTS, BASH_COMPAT, BASH_XTRACEFD",
        "Where one of them is set, and not empty, bash runs all text as it is: it could mean something else in parts. As sh, bash reads no BASH_ENV.",
        &["run", "bench-run"],
    ),
    Told::new(
        "SHLVL, SSH_CLIENT, SSH2_CLIENT",
        "By these bash tells whether it is the first shell, from afar, and runs ~/.bashrc: its text is run as it is then. Stages find SHLVL one higher.",
        &["run", "bench-run"],
    ),
    Told::new(
        "PATH",
        "Where programs to run or to measure beside are looked for.",
        &["bench", "doctor", "explain", "fleet", "pages", "pv", "run", "tour"],
    ),
    Told::new(
        "TMPDIR",
        "Where temporary files are made; else /tmp, of tour /var/tmp. For the rows of pv --cursor, TMP is asked next.",
        &["bench", "explain", "fleet", "pv", "tour", "tune"],
    ),
    Told::new(
        "XDG_STATE_HOME",
        "The folder with the profile, the notes of runs and the journals of fleet cp; else ~/.local/state.",
        &[
            "bench", "cat", "cp", "doctor", "explain", "fleet", "gen", "null", "pv", "run", "tee",
            "tour", "tune",
        ],
    ),
    Told::new(
        "XDG_DATA_HOME",
        "The folder with the runs that are kept; else ~/.local/share.",
        &["bench", "compare", "explain", "history", "import", "report"],
    ),
    Told::new(
        "XDG_RUNTIME_DIR",
        "The folder with the locks of fleets; else that for temporary files.",
        &["fleet"],
    ),
    Told::new(
        "HOME",
        "Where those folders are that no other variable names.",
        &[
            "bench", "cat", "compare", "cp", "doctor", "explain", "fleet", "gen", "history",
            "import", "null", "pv", "report", "run", "tee", "tour", "tune",
        ],
    ),
    Told::new(
        "BYTEPATH_PYTHON, VIRTUAL_ENV",
        "The Python that has the package; the virtual environment in which one is looked for first.",
        &["fleet"],
    ),
    Told::new(
        "DASK_SCHEDULER_ADDRESS, BYTEPATH_SCHEDULER",
        "The first that is set stands in for --scheduler.",
        &["fleet"],
    ),
    Told::new(
        "BYTEPATH_PROGRAM, BYTEPATH_MACHINE",
        "Of a worker: the program bytepath that it runs, and the name of the machine that it stands for.",
        &["fleet"],
    ),
    Told::new(
        "SOURCE_DATE_EPOCH",
        "The time, in seconds since 1970, whose day stands on the pages; else it is today's.",
        &["man"],
    ),
];

pub(super) const FILES: &[Told] = &[
    Told::new(
        "$XDG_STATE_HOME/bytepath/profile.json",
        "What tune has measured, by which movers plan.",
        &[
            "bench",
            "cat",
            "cp",
            "doctor",
            "fleet-tune",
            "gen",
            "null",
            "pv",
            "run",
            "tee",
            "tour",
            "tune",
        ],
    ),
    Told::new(
        "$XDG_STATE_HOME/bytepath/left",
        "Notes of what runs make and change, by which the next one undoes what a killed one left; where there cannot be such a folder, \
         $TMPDIR/bytepath-left-UID.",
        MEASURE,
    ),
    Told::new(
        "$XDG_DATA_HOME/bytepath/records, $XDG_DATA_HOME/bytepath/index-1.sqlite",
        "The runs that are kept, and an index of them, which is made anew where it is damaged.",
        &["bench", "compare", "explain", "history", "import", "report"],
    ),
    Told::new(
        ".bytepath-run-*",
        "Folders of a run, in the directory of --dir or the one for temporary files: they go with it.",
        MEASURE,
    ),
    Told::new("$TMPDIR, /var/tmp", "The file of a tour, which has no name there.", &["tour"]),
    Told::new("/run/bytepath-swap.lock", "Whose turn it is.", &["bench-swap"]),
    Told::new(
        ".*.bytepath-part, .bytepath-*",
        "What cp has not finished, beside what it becomes; --resume goes on with the first.",
        &["cp"],
    ),
    Told::new(
        "/run/user/UID, ~/.pv",
        "The first of them that is there has bytepath-pv.PID.*, what one pv asks another for by --remote and --query.",
        &["pv"],
    ),
    Told::new(
        "$TMPDIR/bytepath-pv-UID-*.rows",
        "Which rows of a terminal those pv have that draw with --cursor.",
        &["pv"],
    ),
    Told::new(
        "$XDG_STATE_HOME/bytepath/fleet/*.journal",
        "What a copying has not done yet, unless --journal names another file.",
        &["fleet-cp"],
    ),
    Told::new(
        "DEST/.bytepath-fleet-*",
        "What a copying is at: gone when all files are there.",
        &["fleet-cp"],
    ),
    Told::new(
        "$XDG_RUNTIME_DIR/bytepath-fleet-UID",
        "On each machine: whose turn it is; where there is no such directory, $TMPDIR/bytepath-fleet-UID.",
        &["fleet"],
    ),
];
