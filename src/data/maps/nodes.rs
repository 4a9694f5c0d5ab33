//! Node maps: names of nodes in order, kept as groups of names that differ in numbers only.
use super::scan::{MAX_DIGITS, Scan, Span};
use super::{Form, Limit, Limits, MapError};

/// The nodes of a job in order (`NODE_MAP`). A node's number (`NODEID`) is its index here.
#[derive(Debug, Clone, Default)]
pub struct NodeMap {
    groups: Vec<Group>,
    len: usize,
}

/// Names that one element of the list stands for.
#[derive(Debug, Clone)]
struct Group {
    /// Names before the first of this group.
    start: usize,
    parts: Vec<Part>,
}

/// A piece of a name.
#[derive(Debug, Clone)]
enum Part {
    Text(Vec<u8>),
    /// One of these numbers, `count` in all; `before` says how many there are before each span.
    Numbers {
        spans: Vec<Span>,
        before: Vec<u64>,
        count: u64,
    },
}

/// Bytes that a name cannot have, because they mean something in an expression or would end it.
const SPECIAL: &[u8] = b",;[]\0";

impl NodeMap {
    /// Takes a node map expression apart, within the default [`Limits`].
    ///
    /// # Errors
    /// [`MapError`] says what is wrong with it and where.
    pub fn parse(expression: &[u8]) -> Result<Self, MapError> {
        Self::parse_within(expression, &Limits::default())
    }

    /// The same within other limits.
    ///
    /// # Errors
    /// As [`parse`](NodeMap::parse).
    pub fn parse_within(expression: &[u8], limits: &Limits) -> Result<Self, MapError> {
        let mut scan = Scan::open(expression, limits)?;
        let mut map = NodeMap::default();
        if scan.peek().is_none() {
            return Ok(map);
        }
        loop {
            let parts = element(&mut scan, limits)?;
            map.push(parts, limits)?;
            match scan.peek() {
                None => return Ok(map),
                Some(b',') => scan.take(b','),
                Some(_) => return Err(scan.wrong("a byte that no name can have")),
            };
        }
    }

    /// A map of these names. Neighbours that differ in one number become one group.
    ///
    /// # Errors
    /// [`MapError`] when a name is empty or has a byte that means something in expressions, or when there are too many.
    pub fn from_names<N: AsRef<[u8]>>(names: impl IntoIterator<Item = N>) -> Result<Self, MapError> {
        let limits = Limits::default();
        let mut map = NodeMap::default();
        let mut run: Option<Run> = None;
        for name in names {
            let name = name.as_ref();
            if name.is_empty() || name.iter().any(|byte| SPECIAL.contains(byte)) {
                return Err(MapError::Name { name: name.to_vec() });
            }
            if !run.as_mut().is_some_and(|run| run.extend(name)) {
                if let Some(done) = run.replace(Run::One(name.to_vec())) {
                    map.push(done.into_parts(), &limits)?;
                }
            }
        }
        if let Some(last) = run {
            map.push(last.into_parts(), &limits)?;
        }
        Ok(map)
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The name of a node.
    pub fn name(&self, node: usize) -> Option<Vec<u8>> {
        if node >= self.len {
            return None;
        }
        let group = &self.groups[self.groups.partition_point(|group| group.start <= node) - 1];
        Some(group.name((node - group.start) as u64))
    }

    /// The names in order, made one by one.
    pub fn names(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let ends = self.groups.iter().skip(1).map(|group| group.start).chain([self.len]);
        let groups = self.groups.iter().zip(ends);
        groups.flat_map(|(group, end)| (0..end - group.start).map(|index| group.name(index as u64)))
    }

    /// The number of the node with this name, the first where several have it.
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        self.names().position(|known| known == name)
    }

    /// The expression of this map, which [`parse`](NodeMap::parse) takes apart again.
    ///
    /// In brackets or behind a colon neighbours that differ in one number stand together; a plain list is made explicit
    /// (`raw:`) if its first name could be taken for a method.
    pub fn to_text(&self, form: Form) -> Vec<u8> {
        if matches!(form, Form::Plain | Form::Raw) {
            let list = self.names().collect::<Vec<_>>().join(&b',');
            let looks_like_method = [&b"raw:"[..], b"pmix:", b"blob:"].iter().any(|method| list.starts_with(method));
            let form = if looks_like_method { Form::Raw } else { form };
            return [form.opening(), &list].concat();
        }
        // Other libraries know one pair of brackets in a name and one width: what was parsed with more is put together anew.
        if !self.groups.iter().all(Group::is_simple) {
            if let Ok(flat) = NodeMap::from_names(self.names()) {
                return flat.to_text(form);
            }
        }
        let mut text = form.opening().to_vec();
        for (index, group) in self.groups.iter().enumerate() {
            text.extend_from_slice(if index == 0 { b"" } else { b"," });
            group.write(form, &mut text);
        }
        text.extend_from_slice(form.closing());
        text
    }

    fn push(&mut self, parts: Vec<Part>, limits: &Limits) -> Result<(), MapError> {
        let name: usize = parts.iter().map(Part::longest).sum();
        if name > limits.name {
            return Err(MapError::TooLarge { limit: Limit::Name, max: limits.name as u64 });
        }
        let counts = parts.iter().map(Part::count);
        let len = counts
            .fold(1u64, u64::saturating_mul)
            .checked_add(self.len as u64)
            .filter(|len| *len <= limits.nodes as u64)
            .ok_or(MapError::TooLarge { limit: Limit::Nodes, max: limits.nodes as u64 })?;
        self.groups.push(Group { start: self.len, parts });
        self.len = len as usize;
        Ok(())
    }
}

/// Two maps are the same when they name the same nodes in the same order, however they were written.
impl PartialEq for NodeMap {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.names().eq(other.names())
    }
}

impl Eq for NodeMap {}

/// One element of a list: text and numbers in brackets, by turns.
fn element(scan: &mut Scan<'_>, limits: &Limits) -> Result<Vec<Part>, MapError> {
    let mut parts = Vec::new();
    loop {
        let text = scan.until(SPECIAL);
        if !text.is_empty() {
            parts.push(Part::Text(text.to_vec()));
        }
        if !scan.take(b'[') {
            break;
        }
        parts.push(numbers(scan, limits)?);
    }
    match parts.is_empty() {
        true => Err(scan.wrong("an empty name")),
        false => Ok(parts),
    }
}

/// `1-4,7]` or, with the number of digits in front, `3:1-4,7]`. Without it each range is as wide as its first number.
fn numbers(scan: &mut Scan<'_>, limits: &Limits) -> Result<Part, MapError> {
    let mut spans: Vec<Span> = Vec::new();
    let mut count = 0u64;
    let mut span = scan.span()?;
    let digits = match span.first == span.last && scan.take(b':') {
        true if span.first > MAX_DIGITS as u64 => return Err(scan.wrong("too many digits")),
        true => {
            let digits = span.first as usize;
            span = scan.span()?;
            Some(digits)
        }
        false => None,
    };
    loop {
        span.width = digits.unwrap_or(span.width);
        count = count.saturating_add(span.len());
        if count > limits.nodes as u64 {
            return Err(MapError::TooLarge { limit: Limit::Nodes, max: limits.nodes as u64 });
        }
        spans.push(span);
        if scan.take(b']') {
            return Ok(Part::numbers(spans));
        }
        if !scan.take(b',') {
            return Err(scan.wrong("something where a , or ] belongs"));
        }
        span = scan.span()?;
    }
}

impl Part {
    fn numbers(spans: Vec<Span>) -> Self {
        let mut count = 0;
        let mut before = Vec::with_capacity(spans.len());
        for span in &spans {
            before.push(count);
            count += span.len();
        }
        Part::Numbers { spans, before, count }
    }

    /// How many things this piece can be.
    fn count(&self) -> u64 {
        match self {
            Part::Text(_) => 1,
            Part::Numbers { count, .. } => *count,
        }
    }

    /// Bytes of the longest of them.
    fn longest(&self) -> usize {
        match self {
            Part::Text(text) => text.len(),
            Part::Numbers { spans, .. } => spans.iter().map(|span| span.digits()).max().unwrap_or(0),
        }
    }
}

impl Group {
    /// The name at `index` of those that this group stands for; the last number varies fastest.
    fn name(&self, index: u64) -> Vec<u8> {
        let mut rest: u64 = self.parts.iter().map(Part::count).product();
        let mut index = index;
        let mut name = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.extend_from_slice(text),
                Part::Numbers { spans, before, count } => {
                    rest /= count;
                    let which = index / rest;
                    index %= rest;
                    let at = before.partition_point(|before| *before <= which) - 1;
                    spans[at].write(spans[at].first + which - before[at], &mut name);
                }
            }
        }
        name
    }

    /// Whether every library can read it in brackets: numbers in one place, all of the same width.
    fn is_simple(&self) -> bool {
        let mut numbers = self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Numbers { spans, .. } => Some(spans),
        });
        let uniform = |spans: &Vec<Span>| spans.iter().all(|span| span.width == spans[0].width);
        numbers.next().is_none_or(uniform) && numbers.next().is_none()
    }

    fn write(&self, form: Form, text: &mut Vec<u8>) {
        for part in &self.parts {
            let spans = match part {
                Part::Text(piece) => {
                    text.extend_from_slice(piece);
                    continue;
                }
                Part::Numbers { spans, .. } => spans,
            };
            text.push(b'[');
            if form == Form::Bracket {
                text.extend_from_slice(format!("{}:", spans[0].width).as_bytes());
            }
            for (index, span) in spans.iter().enumerate() {
                text.extend_from_slice(if index == 0 { b"" } else { b"," });
                let shown = if form == Form::Bracket { Span { width: 1, ..*span } } else { *span };
                shown.write(span.first, text);
                if span.last > span.first {
                    text.push(b'-');
                    shown.write(span.last, text);
                }
            }
            text.push(b']');
        }
    }
}

/// Names that follow one another, while we look for what they have in common.
enum Run {
    One(Vec<u8>),
    Many { before: Vec<u8>, after: Vec<u8>, spans: Vec<Span> },
}

/// Most digits that are written as a range: other libraries read them into an `int`.
const MAX_RANGE_DIGITS: usize = 9;

impl Run {
    /// Takes `name` in if it differs from the names before in one number only.
    fn extend(&mut self, name: &[u8]) -> bool {
        match self {
            Run::One(first) => match differing_number(first, name) {
                None => false,
                Some(at) => {
                    let mut spans = vec![one(&first[at.clone()])];
                    append(&mut spans, one(&name[at.clone()]));
                    *self = Run::Many { before: first[..at.start].to_vec(), after: first[at.end..].to_vec(), spans };
                    true
                }
            },
            Run::Many { before, after, spans } => {
                let number = name
                    .strip_prefix(&before[..])
                    .and_then(|rest| rest.strip_suffix(&after[..]))
                    .filter(|number| number.len() == spans[0].width && number.iter().all(u8::is_ascii_digit));
                number.map(|number| append(spans, one(number))).is_some()
            }
        }
    }

    fn into_parts(self) -> Vec<Part> {
        match self {
            Run::One(name) => vec![Part::Text(name)],
            Run::Many { before, after, spans } => {
                let mut parts = vec![Part::Text(before), Part::numbers(spans), Part::Text(after)];
                parts.retain(|part| part.longest() > 0);
                parts
            }
        }
    }
}

/// Where two names of the same length have different numbers, if they differ nowhere else.
fn differing_number(a: &[u8], b: &[u8]) -> Option<std::ops::Range<usize>> {
    let differs = |at: &usize| a[*at] != b[*at];
    if a.len() != b.len() {
        return None;
    }
    let mut start = (0..a.len()).find(differs)?;
    let mut end = (0..a.len()).rfind(differs)? + 1;
    while start > 0 && a[start - 1].is_ascii_digit() {
        start -= 1;
    }
    while end < a.len() && a[end].is_ascii_digit() {
        end += 1;
    }
    let digits = |name: &[u8]| name[start..end].iter().all(u8::is_ascii_digit);
    (end - start <= MAX_RANGE_DIGITS && digits(a) && digits(b)).then_some(start..end)
}

fn one(digits: &[u8]) -> Span {
    let value = digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    Span { first: value, last: value, width: digits.len() }
}

fn append(spans: &mut Vec<Span>, next: Span) {
    match spans.last_mut() {
        Some(last) if last.last + 1 == next.first => last.last = next.last,
        _ => spans.push(next),
    }
}
