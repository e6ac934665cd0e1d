//! Columns of a table and their roles, from a header line or from names that the user gives.

use memchr::memchr_iter;

use crate::fields;

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
}

/// Number of roles.
pub(super) const ROLES: usize = 14;

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
    ];

    fn of(name: &str) -> Option<Self> {
        let known = Self::ALL
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|&(_, role)| role)
    }
}

/// Columns of free text, which may contain the delimiter. The extra cells of a line with more cells
/// than columns belong to one of them.
const FREE: [&str; 6] = [
    "jobname",
    "comment",
    "submitline",
    "workdir",
    "admincomment",
    "systemcomment",
];

/// Possible delimiters, the usual one first.
pub(super) const DELIMITERS: [u8; 8] = [b'|', b'\t', b';', b'^', b'~', b'#', b':', b','];

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
    /// Columns of free text, which may take extra cells.
    free: Vec<usize>,
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
        if columns.last().is_some_and(|(name, _)| name.is_empty()) {
            columns.pop();
        }
        let place = |free: &&str| {
            let same = |(name, _): &(String, _)| name.eq_ignore_ascii_case(free);
            columns.iter().position(same)
        };
        let free = FREE.iter().filter_map(place).collect();
        Self {
            delimiter,
            columns,
            free,
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

    /// Columns that may take the extra cells of a line.
    pub(super) fn free(&self) -> &[usize] {
        &self.free
    }

    /// Cuts a line with extra cells, which the column at `free` takes.
    pub(super) fn cut_around<'a>(
        &self,
        free: usize,
        line: &'a [u8],
        cells: &mut [&'a [u8]; ROLES],
    ) {
        let extra = self.cells(line).saturating_sub(self.columns.len());
        let mut parts = line.split(|&byte| byte == self.delimiter);
        for (at, (_, role)) in self.columns.iter().enumerate() {
            let cell = parts.next().unwrap_or(&[]);
            if at == free {
                for _ in 0..extra {
                    parts.next();
                }
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
    let is_date = |cell: &[u8]| {
        matches!(cell, [y, _, _, _, b'-', _, _, b'-', _, _, b'T', rest @ ..]
            if y.is_ascii_digit() && rest.len() == 8)
    };
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
