//! Columns of a table and their roles, from a header line or from names that the user gives.

use lacuna_records::fields;
use lacuna_records::hosts;
use memchr::memchr_iter;

use super::notation;

/// Role of a column. The names are those of `sacct --helpformat`, in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    JobId,
    JobIdRaw,
    Submit,
    Start,
    End,
    State,
    NNodes,
    AllocNodes,
    ReqNodes,
    NodeList,
    Timelimit,
    TimelimitRaw,
    User,
    Partition,
    Cluster,
    JobName,
    Account,
}

/// Number of roles.
pub(super) const ROLES: usize = 17;

impl Role {
    const ALL: [(&'static str, Self); ROLES] = [
        ("jobid", Self::JobId),
        ("jobidraw", Self::JobIdRaw),
        ("submit", Self::Submit),
        ("start", Self::Start),
        ("end", Self::End),
        ("state", Self::State),
        ("nnodes", Self::NNodes),
        ("allocnodes", Self::AllocNodes),
        ("reqnodes", Self::ReqNodes),
        ("nodelist", Self::NodeList),
        ("timelimit", Self::Timelimit),
        ("timelimitraw", Self::TimelimitRaw),
        ("user", Self::User),
        ("partition", Self::Partition),
        ("cluster", Self::Cluster),
        ("jobname", Self::JobName),
        ("account", Self::Account),
    ];

    fn of(name: &str) -> Option<Self> {
        let known = Self::ALL
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|&(_, role)| role)
    }
}

/// What the cells of a column look like. It tells columns from pieces of a text between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Any text of a user, which may contain the delimiter and line ends.
    Free,
    /// The id of a job or step.
    Id,
    /// A time, or a word for none.
    Time,
    /// A state in capitals.
    State,
    /// A number, perhaps with decimals and a unit.
    Number,
    /// A length of time, or a word for none.
    Length,
    /// A list of hosts, or words for none.
    Hosts,
    /// Two numbers with a colon between.
    ExitCode,
    /// A word without blanks.
    Word,
}

/// Beginnings of the names of columns with figures.
const FIGURES: [&str; 8] = [
    "alloc", "ave", "consumed", "max", "min", "req", "tres", "qos",
];

/// Forms of columns without a role, by name. Other columns that hold no figures are texts.
const FORMS: [(&str, Form); 23] = [
    ("eligible", Form::Time),
    ("elapsed", Form::Length),
    ("cputime", Form::Length),
    ("totalcpu", Form::Length),
    ("usercpu", Form::Length),
    ("systemcpu", Form::Length),
    ("planned", Form::Length),
    ("reserved", Form::Length),
    ("suspended", Form::Length),
    ("elapsedraw", Form::Number),
    ("cputimeraw", Form::Number),
    ("plannedcpuraw", Form::Number),
    ("alloccpus", Form::Number),
    ("reqcpus", Form::Number),
    ("ncpus", Form::Number),
    ("ntasks", Form::Number),
    ("uid", Form::Number),
    ("gid", Form::Number),
    ("priority", Form::Number),
    ("restarts", Form::Number),
    ("associd", Form::Number),
    ("exitcode", Form::ExitCode),
    ("derivedexitcode", Form::ExitCode),
];

impl Form {
    fn of(name: &str, role: Option<Role>) -> Self {
        match role {
            Some(Role::JobId | Role::JobIdRaw) => Self::Id,
            Some(Role::Submit | Role::Start | Role::End) => Self::Time,
            Some(Role::State) => Self::State,
            Some(Role::NNodes | Role::AllocNodes | Role::ReqNodes) => Self::Number,
            Some(Role::NodeList) => Self::Hosts,
            Some(Role::Timelimit | Role::TimelimitRaw) => Self::Length,
            Some(Role::User | Role::Partition | Role::Cluster) => Self::Word,
            Some(Role::JobName | Role::Account) => Self::Free,
            None => {
                let mut forms = FORMS.iter();
                let typed = forms.find(|(known, _)| known.eq_ignore_ascii_case(name));
                let begins = |with: &&str| {
                    let start = name.get(..with.len());
                    start.is_some_and(|start| start.eq_ignore_ascii_case(with))
                };
                match typed {
                    Some((_, form)) => *form,
                    None if FIGURES.iter().any(begins) => Self::Word,
                    None => Self::Free,
                }
            }
        }
    }

    /// Whether a cell may be of this form. Only a text may hold line ends.
    fn fits(self, cell: &[u8]) -> bool {
        if self == Self::Free {
            return true;
        }
        if memchr::memchr(b'\n', cell).is_some() {
            return false;
        }
        let cell = cell.trim_ascii();
        let of = |more: &'static [u8]| {
            move |byte: &u8| byte.is_ascii_alphanumeric() || more.contains(byte)
        };
        let is_numeric = |more: &[u8]| {
            let plain = |byte: &u8| byte.is_ascii_digit() || more.contains(byte);
            cell.first().is_some_and(u8::is_ascii_digit) && cell.iter().all(plain)
        };
        let may_be_empty = !matches!(self, Self::Id | Self::Time | Self::State);
        (cell.is_empty() && may_be_empty)
            || match self {
                Self::Free => true,
                Self::Id => {
                    let mut parts = cell.splitn(2, |&byte| byte == b'.');
                    let job = parts.next().unwrap_or(&[]);
                    let part = |byte: &u8| byte.is_ascii_digit() || b"_+[]-,%".contains(byte);
                    job.first().is_some_and(u8::is_ascii_digit)
                        && job.iter().all(part)
                        && parts.all(|step| step.iter().all(of(b"_+-.,]%")))
                }
                Self::Time => {
                    is_numeric(b"-T:.Z+ ")
                        || is_one_of(cell, &NO_TIMES)
                        || notation::local(cell).is_some()
                }
                Self::State => {
                    let word = cell.split(|&byte| byte == b' ').next().unwrap_or(cell);
                    let capital = |byte: &u8| byte.is_ascii_uppercase() || b"_+".contains(byte);
                    !word.is_empty() && word.iter().all(capital)
                }
                Self::Number => {
                    let unit = |byte: &u8| b"KMGTPkm".contains(byte);
                    let number = cell.split_last().filter(|(last, _)| unit(last));
                    let number = number.map_or(cell, |(_, number)| number);
                    let plain = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
                    number.iter().all(plain)
                }
                Self::Length => is_numeric(b"-:.") || is_one_of(cell, &LIMITS),
                Self::Hosts => {
                    let known = cell == b"None assigned" || cell == b"(null)";
                    let list = std::str::from_utf8(cell);
                    known
                        || cell.iter().all(of(b"_-.,[]"))
                            && list.is_ok_and(|list| hosts::count(list).is_ok())
                }
                Self::ExitCode => is_numeric(b":"),
                Self::Word => !cell.iter().any(u8::is_ascii_whitespace),
            }
    }
}

/// Words of a time that is none.
pub(super) const NO_TIMES: [&[u8]; 5] = [b"Unknown", b"None", b"N/A", b"INVALID", b"(null)"];

/// Words of a length of time that is none.
const LIMITS: [&[u8]; 7] = [
    b"UNLIMITED",
    b"INFINITE",
    b"Partition_Limit",
    b"INVALID",
    b"NOT_SET",
    b"None",
    b"Unknown",
];

fn is_one_of(cell: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| cell.eq_ignore_ascii_case(word))
}

/// Possible delimiters, the usual one first.
pub(super) const DELIMITERS: [u8; 8] = [b'|', b'\t', b';', b'^', b'~', b'#', b':', b','];

/// Most ways to cut a row that are compared.
const MOST_WAYS: usize = 16;

/// Most extra cells of a row.
const MOST_EXTRA: usize = 4096;

/// A way to cut a row: the columns of texts that take extra cells, and how many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Way {
    texts: Vec<(usize, usize)>,
}

impl Way {
    /// Number of texts that take extra cells.
    pub(super) fn texts(&self) -> usize {
        self.texts.len()
    }
}

/// How the cells of a line fit the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Whole,
    TooFew,
    TooMany,
}

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    /// Delimiter between two cells.
    pub(super) delimiter: u8,
    /// Name and role of each column.
    columns: Vec<(String, Option<Role>)>,
    /// Form of each column.
    forms: Vec<Form>,
    /// Whether the header ends with a delimiter, as `sacct --parsable` prints it.
    ends_open: bool,
    /// Number of the column for each role, from 1; 0 without such a column.
    numbers: [usize; ROLES],
}

impl Columns {
    /// Columns of a header line.
    ///
    /// # Errors
    /// `None` if the line is no header; the missing columns, as text, if it is one.
    pub(super) fn from_header(line: &[u8]) -> Option<Result<Self, String>> {
        let text = std::str::from_utf8(line).ok()?;
        let text = text.trim_start_matches('\u{feff}').trim_ascii();
        let delimiter = DELIMITERS.into_iter().find(|&delimiter| {
            text.split(char::from(delimiter))
                .filter_map(Role::of)
                .count()
                > 1
        })?;
        let names = text.split(char::from(delimiter)).map(str::trim_ascii);
        // A record of another format may hold a header in a text of a user, but not at its beginning.
        let is_name = |name: &str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        names.clone().next().filter(|name| is_name(name))?;
        let columns = Self::of(names, delimiter);
        let has_id = columns.has(Role::JobId) || columns.has(Role::JobIdRaw);
        // A line of data may contain one name of a column by chance, but not several.
        has_id.then(|| columns.complete())
    }

    /// Columns from names as in `sacct --format`, separated by `|` or commas; widths (`JobName%30`)
    /// are ignored. The delimiter is the one that cuts `line` into as many cells.
    ///
    /// # Errors
    /// The missing columns, as text.
    pub(super) fn from_names(names: &str, line: &[u8]) -> Result<Self, String> {
        let names: Vec<&str> = names
            .split(['|', ','])
            .map(|name| name.split('%').next().unwrap_or(name).trim_ascii())
            .collect();
        let cells = |delimiter| memchr_iter(delimiter, line).count() + 1;
        let delimiter = DELIMITERS
            .into_iter()
            .find(|&delimiter| cells(delimiter) == names.len())
            .unwrap_or(b'|');
        Self::of(names.into_iter(), delimiter).complete()
    }

    fn of<'a>(names: impl Iterator<Item = &'a str>, delimiter: u8) -> Self {
        let mut numbers = [0; ROLES];
        let mut columns: Vec<(String, Option<Role>)> = Vec::new();
        for name in names {
            // The first of two columns of the same name counts.
            let role = Role::of(name).filter(|&role| numbers.get(role as usize) == Some(&0));
            if let Some(number) = role.and_then(|role| numbers.get_mut(role as usize)) {
                *number = columns.len() + 1;
            }
            columns.push((name.to_owned(), role));
        }
        // `sacct --parsable` prints a delimiter behind the last column.
        let ends_open = columns.last().is_some_and(|(name, _)| name.is_empty());
        if ends_open {
            columns.pop();
        }
        let forms = columns.iter().map(|(name, role)| Form::of(name, *role));
        let forms = forms.collect();
        Self {
            delimiter,
            columns,
            forms,
            ends_open,
            numbers,
        }
    }

    /// The columns, if no required one is missing.
    fn complete(self) -> Result<Self, String> {
        let mut lacking = Vec::new();
        if !self.has(Role::JobId) && !self.has(Role::JobIdRaw) {
            lacking.push("JobID");
        }
        if !self.has(Role::Start) {
            lacking.push("Start");
        }
        if !self.has(Role::End) {
            lacking.push("End");
        }
        let sizes = [Role::NNodes, Role::NodeList, Role::AllocNodes];
        if !sizes.into_iter().any(|role| self.has(role)) {
            lacking.push("one of NNodes, NodeList and AllocNodes");
        }
        if lacking.is_empty() {
            return Ok(self);
        }
        Err(format!("the columns lack {}", lacking.join(", ")))
    }

    /// Whether a column has this role.
    pub(super) fn has(&self, role: Role) -> bool {
        self.numbers
            .get(role as usize)
            .is_some_and(|&number| number > 0)
    }

    /// Number and name of the column of a role, for errors.
    #[cold]
    pub(super) fn place(&self, role: Role) -> String {
        let number = self.numbers.get(role as usize).copied().unwrap_or(0);
        let column = number.checked_sub(1).and_then(|at| self.columns.get(at));
        let name = column.map_or("none", |(name, _)| name);
        format!("column {number} ({name})")
    }

    /// Whether a line begins like a header, of this or another table, since tables may be joined.
    /// Fast, since every line is checked.
    #[inline]
    pub(super) fn begin(&self, line: &[u8]) -> bool {
        if line.first().is_none_or(u8::is_ascii_digit) {
            return false;
        }
        let name = self.columns.first().map_or("", |(name, _)| name.as_str());
        let begins = |name: &str| {
            line.get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        };
        begins(name) || begins("JobID")
    }

    /// Number of columns.
    pub(super) fn count(&self) -> usize {
        self.columns.len()
    }

    /// Cuts a line into the cells of its roles; a cell without a column stays empty.
    #[inline]
    pub(super) fn cut<'a>(&self, line: &'a [u8], cells: &mut [&'a [u8]; ROLES]) -> Cut {
        let mut ends = memchr_iter(self.delimiter, line).chain(std::iter::once(line.len()));
        let mut from = 0;
        for (_, role) in &self.columns {
            let Some(end) = ends.next() else {
                return Cut::TooFew;
            };
            if let Some(role) = role
                && let (Some(place), Some(cell)) =
                    (cells.get_mut(*role as usize), line.get(from..end))
            {
                *place = cell;
            }
            from = end + 1;
        }
        // `--parsable` ends each line with a delimiter.
        if from >= line.len() {
            Cut::Whole
        } else {
            Cut::TooMany
        }
    }

    /// Whether a column is a text, which may take extra cells.
    pub(super) fn has_text(&self) -> bool {
        self.forms.contains(&Form::Free)
    }

    /// Whether the last column is a text, so that a row may go on behind its last delimiter.
    pub(super) fn ends_in_text(&self) -> bool {
        self.forms.last() == Some(&Form::Free)
    }

    /// Whether the first column is a text.
    pub(super) fn begins_with_text(&self) -> bool {
        self.forms.first() == Some(&Form::Free)
    }

    /// Whether a line is the beginning of a row that a line end in a text has cut: all columns
    /// before the first text fit.
    pub(super) fn is_beginning(&self, line: &[u8]) -> bool {
        let first = self.forms.iter().take_while(|form| **form != Form::Free);
        let first: Vec<Form> = first.copied().collect();
        let mut cells = line.split(|&byte| byte == self.delimiter);
        first.len() < self.forms.len()
            && first
                .iter()
                .all(|form| cells.next().is_some_and(|cell| form.fits(cell)))
            && cells.next().is_some()
    }

    /// A line without the delimiter behind the last column, if rows have one.
    pub(super) fn without_end<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        match self.ends_open {
            true => line.strip_suffix(&[self.delimiter]).unwrap_or(line),
            false => line,
        }
    }

    /// Whether a line may end a row: all columns behind the last text fit, or those before it if it
    /// ends the row.
    pub(super) fn is_ending(&self, line: &[u8]) -> bool {
        let line = self.without_end(line);
        let cells: Vec<&[u8]> = line.split(|&byte| byte == self.delimiter).collect();
        let is_text = |form: &&Form| **form == Form::Free;
        let behind = self.forms.iter().rev().skip_while(is_text);
        let mut last: Vec<Form> = behind.take_while(|form| !is_text(form)).copied().collect();
        last.reverse();
        let fit = |cells: &[&[u8]]| last.iter().zip(cells).all(|(form, cell)| form.fits(cell));
        match (self.ends_in_text(), cells.len().checked_sub(last.len())) {
            (_, None | Some(0)) => false,
            (false, Some(before)) => cells.get(before..).is_some_and(fit),
            (true, Some(_)) => cells.windows(last.len() + 1).skip(1).any(fit),
        }
    }

    /// The ways to cut a row with extra cells or line ends, in which texts take all of these and
    /// each other cell fits its column. The ways with the fewest such texts come first; at most
    /// [`MOST_WAYS`].
    pub(super) fn ways(&self, row: &[u8]) -> Vec<Way> {
        let all: Vec<&[u8]> = row.split(|&byte| byte == self.delimiter).collect();
        let all = all.as_slice();
        // An empty last cell is one, or the end of a row of `sacct --parsable`.
        let shorter = all.split_last().filter(|(last, _)| last.is_empty());
        let shorter = shorter.map(|(_, before)| before);
        let order = match self.ends_open {
            true => [shorter, Some(all)],
            false => [Some(all), shorter],
        };
        let ways = order.into_iter().flatten().map(|cells| self.ways_of(cells));
        ways.into_iter()
            .find(|ways| !ways.is_empty())
            .unwrap_or_default()
    }

    fn ways_of(&self, cells: &[&[u8]]) -> Vec<Way> {
        let Some(extra) = cells.len().checked_sub(self.forms.len()) else {
            return Vec::new();
        };
        if extra > MOST_EXTRA {
            return Vec::new();
        }
        // Whether columns from this one on can take the cells from that many extra ones on.
        let width = extra + 1;
        let mut can = vec![false; (self.forms.len() + 1) * width];
        if let Some(end) = can.last_mut() {
            *end = true;
        }
        let at = |column: usize, taken: usize| column * width + taken;
        let is = |can: &[bool], place: usize| can.get(place).copied().unwrap_or(false);
        for (column, form) in self.forms.iter().enumerate().rev() {
            let mut later = false;
            for taken in (0..width).rev() {
                later |= is(&can, at(column + 1, taken));
                let one = match form {
                    Form::Free => later,
                    form => {
                        is(&can, at(column + 1, taken))
                            && cells
                                .get(column + taken)
                                .is_some_and(|cell| form.fits(cell))
                    }
                };
                if let Some(place) = can.get_mut(at(column, taken)) {
                    *place = one;
                }
            }
        }
        let mut ways: Vec<Way> = Vec::new();
        let mut work = vec![(0, 0, Way::default())];
        while let Some((column, taken, way)) = work.pop() {
            if !is(&can, at(column, taken)) || ways.len() >= MOST_WAYS {
                continue;
            }
            match self.forms.get(column) {
                None => ways.push(way),
                // Of texts side by side the first takes all, since no column lies between them.
                Some(Form::Free)
                    if column > 0 && self.forms.get(column - 1) == Some(&Form::Free) =>
                {
                    work.push((column + 1, taken, way));
                }
                Some(Form::Free) => {
                    for more in
                        (0..width - taken).filter(|more| is(&can, at(column + 1, taken + more)))
                    {
                        let mut next = way.clone();
                        if more > 0 {
                            next.texts.push((column, more));
                        }
                        work.push((column + 1, taken + more, next));
                    }
                }
                Some(_) => work.push((column + 1, taken, way)),
            }
        }
        ways.sort_by_key(Way::texts);
        ways
    }

    /// Cuts a row this way.
    pub(super) fn cut_by<'a>(&self, way: &Way, row: &'a [u8], cells: &mut [&'a [u8]; ROLES]) {
        let mut parts = row.split(|&byte| byte == self.delimiter);
        for (at, (_, role)) in self.columns.iter().enumerate() {
            let cell = parts.next().unwrap_or(&[]);
            let more = way.texts.iter().find(|(column, _)| *column == at);
            for _ in 0..more.map_or(0, |(_, more)| *more) {
                parts.next();
            }
            if let Some(place) = role.and_then(|role| cells.get_mut(role as usize)) {
                *place = cell;
            }
        }
    }

    /// Number of cells of a line.
    pub(super) fn cells(&self, line: &[u8]) -> usize {
        let line = line.strip_suffix(&[self.delimiter]).unwrap_or(line);
        memchr_iter(self.delimiter, line).count() + 1
    }
}

/// Whether a line looks like a job of a table without a header: a job's number, and two dates.
pub(super) fn is_data(line: &[u8]) -> bool {
    DELIMITERS.into_iter().any(|delimiter| {
        let mut cells = line.split(|&byte| byte == delimiter);
        let first = cells.next().unwrap_or(&[]);
        let digits = first
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let id = first.get(..digits).and_then(fields::unsigned);
        id.is_some() && cells.filter(|cell| is_date(cell)).count() > 1
    })
}

/// Whether a cell is a date, as in `2022-01-01T00:00:10`.
pub(super) fn is_date(cell: &[u8]) -> bool {
    matches!(cell, [y, _, _, _, b'-', _, _, b'-', _, _, b'T', rest @ ..]
        if y.is_ascii_digit() && rest.len() == 8)
}
