//! Node maps: names of nodes in order, kept as groups of names that differ in numbers only.
use super::element::{Element, IS_SPECIAL, check_name};
use super::row::NameRow;
use super::run::Run;
use super::scan::Scan;
use super::{Form, Limit, Limits, MapError};

/// The nodes of a job in order (`NODE_MAP`). A node's number (`NODEID`) is its index here.
#[derive(Debug, Clone, Default)]
pub struct NodeMap {
    groups: Vec<Group>,
    len: usize,
}

/// An element of the list, and how many names there are before its own.
#[derive(Debug, Clone)]
struct Group {
    start: usize,
    element: Element,
}

impl NodeMap {
    /// Takes a node map expression apart, within the default [`Limits`].
    ///
    /// # Errors
    /// [`MapError`] says what is wrong with it and where.
    pub fn parse(expression: &[u8]) -> Result<Self, MapError> {
        Self::parse_within(expression, &Limits::default())
    }

    /// Parses an expression within other limits.
    ///
    /// # Errors
    /// As [`parse`](NodeMap::parse).
    pub fn parse_within(expression: &[u8], limits: &Limits) -> Result<Self, MapError> {
        let mut map = NodeMap::default();
        walk(expression, limits, |element| map.push(element, limits))?;
        Ok(map)
    }

    /// A map of what an expression names, put together as far as it goes: the shortest way from a list to its
    /// expression.
    ///
    /// # Errors
    /// As [`parse`](NodeMap::parse) and [`from_names`](NodeMap::from_names).
    pub fn from_list(expression: &[u8]) -> Result<Self, MapError> {
        if !is_plain(expression) {
            return Self::parse(expression);
        }
        let (mut map, limits) = (NodeMap::default(), Limits::default());
        runs_of(expression, &limits, |run| map.push(run.into_element(), &limits))?;
        Ok(map)
    }

    /// The text of the map of a list, which need not be made for it where the list is a plain one.
    ///
    /// # Errors
    /// As [`from_list`](NodeMap::from_list).
    pub fn shortened(list: &[u8], form: Form) -> Result<Vec<u8>, MapError> {
        if !is_plain(list) || !matches!(form, Form::Bracket | Form::Colon) {
            return Ok(Self::from_list(list)?.to_text(form));
        }
        let limits = Limits::default();
        let mut text = Vec::with_capacity(list.len().min(SHORT));
        text.extend_from_slice(form.opening());
        let mut nodes = 0;
        runs_of(list, &limits, |run| {
            text.extend_from_slice(if nodes == 0 { b"" } else { b"," });
            nodes = more(nodes, run.count(), &limits)?;
            run.write(form, &mut text);
            Ok(())
        })?;
        text.extend_from_slice(form.closing());
        Ok(text)
    }

    /// Gives `f` the names of an expression in order, together where they count up, and keeps none.
    ///
    /// # Errors
    /// As [`parse`](NodeMap::parse), after `f` has had what is in front of the mistake.
    pub(crate) fn each_row_of(expression: &[u8], mut f: impl FnMut(NameRow<'_>)) -> Result<(), MapError> {
        let (limits, mut nodes) = (Limits::default(), 0);
        let list = expression.strip_suffix(b"\0").unwrap_or(expression);
        let list = list.strip_prefix(Form::Raw.opening()).unwrap_or(list);
        if expression.len() <= limits.text && is_plain(list) {
            return runs_of(list, &limits, |run| {
                nodes = more(nodes, run.count(), &limits)?;
                run.each_row(&mut f);
                Ok(())
            });
        }
        walk(expression, &limits, |element| {
            nodes = more(nodes, element.count(), &limits)?;
            element.each_row(&mut f);
            Ok(())
        })
    }

    /// A map of these names. Neighbours that differ in one number become one group.
    ///
    /// # Errors
    /// [`MapError`] when a name is empty or has a byte that means something in expressions, or when there are too many.
    pub fn from_names<N: AsRef<[u8]>>(names: impl IntoIterator<Item = N>) -> Result<Self, MapError> {
        Self::from_names_within(names, &Limits::default())
    }

    /// Makes a map of names within other limits.
    ///
    /// # Errors
    /// As [`from_names`](NodeMap::from_names).
    pub fn from_names_within<N: AsRef<[u8]>>(
        names: impl IntoIterator<Item = N>,
        limits: &Limits,
    ) -> Result<Self, MapError> {
        let (mut map, mut run) = (NodeMap::default(), None);
        for name in names {
            if let Some(done) = go_on(&mut run, name.as_ref(), limits)? {
                map.push(done.into_element(), limits)?;
            }
        }
        if let Some(last) = run {
            map.push(last.into_element(), limits)?;
        }
        Ok(map)
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The name of a node.
    pub fn name(&self, node: usize) -> Option<Vec<u8>> {
        if node >= self.len {
            return None;
        }
        let group = &self.groups[self.groups.partition_point(|group| group.start <= node) - 1];
        Some(group.element.name((node - group.start) as u64))
    }

    /// The names in order, made one by one.
    pub fn names(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let ends = self.groups.iter().skip(1).map(|group| group.start).chain([self.len]);
        let groups = self.groups.iter().zip(ends);
        groups.flat_map(|(group, end)| (0..end - group.start).map(|index| group.element.name(index as u64)))
    }

    /// Gives `f` the names in order, all of them in the same place.
    pub fn each_name(&self, mut f: impl FnMut(&[u8])) {
        let ends = self.groups.iter().skip(1).map(|group| group.start).chain([self.len]);
        let mut name = Vec::new();
        for (group, end) in self.groups.iter().zip(ends) {
            for index in 0..end - group.start {
                name.clear();
                group.element.write_name(index as u64, &mut name);
                f(&name);
            }
        }
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
        // A map that was parsed may name neighbours one by one, or have more than other libraries know, which is one
        // pair of brackets in a name and one width: it is put together anew.
        if self.is_loose()
            && let Ok(simple) = NodeMap::from_names_within(self.names(), &Limits::NONE)
        {
            return simple.write(form);
        }
        self.write(form)
    }

    fn write(&self, form: Form) -> Vec<u8> {
        let mut text = form.opening().to_vec();
        for (index, group) in self.groups.iter().enumerate() {
            text.extend_from_slice(if index == 0 { b"" } else { b"," });
            group.element.write(form, &mut text);
        }
        text.extend_from_slice(form.closing());
        text
    }

    /// Returns whether it may get shorter or simpler.
    fn is_loose(&self) -> bool {
        let single = |group: &Group| group.element.count() == 1;
        self.groups.windows(2).any(|two| two.iter().all(single))
            || !self.groups.iter().all(|group| group.element.is_simple())
    }

    fn push(&mut self, element: Element, limits: &Limits) -> Result<(), MapError> {
        let len = more(self.len, element.count(), limits)?;
        self.groups.push(Group { start: self.len, element });
        self.len = len;
        Ok(())
    }
}

/// Bytes that are set aside for the text of a list.
const SHORT: usize = 256;

/// Returns whether an expression is nothing but names and commas.
fn is_plain(expression: &[u8]) -> bool {
    !expression.is_empty()
        && expression.len() <= Limits::TEXT
        && !expression.contains(&b'[')
        && !expression.contains(&b':')
}

/// Looks whether bytes can be the name of a node: all but none, too many, and those that mean something in expressions.
///
/// # Errors
/// [`MapError`] says why they cannot.
pub fn check_node(name: &[u8]) -> Result<(), MapError> {
    check_node_within(name, &Limits::default())
}

fn check_node_within(name: &[u8], limits: &Limits) -> Result<(), MapError> {
    if name.is_empty() || name.iter().any(|byte| IS_SPECIAL[usize::from(*byte)]) {
        return Err(MapError::Name { name: name.to_vec() });
    }
    check_name(name.len(), limits)
}

/// Takes a name in; gives what is complete because it does not follow.
fn go_on(run: &mut Option<Run>, name: &[u8], limits: &Limits) -> Result<Option<Run>, MapError> {
    check_node_within(name, limits)?;
    match run.as_mut().is_some_and(|run| run.extend(name)) {
        true => Ok(None),
        false => Ok(run.replace(Run::One(name.to_vec()))),
    }
}

/// Gives `to` the names of a plain list, put together. Names that follow one another are looked at once.
fn runs_of(list: &[u8], limits: &Limits, mut to: impl FnMut(Run) -> Result<(), MapError>) -> Result<(), MapError> {
    let mut run: Option<Run> = None;
    let mut rest = Some(list);
    while let Some(names) = rest {
        let len = match run.as_mut().and_then(|run| run.extend_from(names)) {
            Some(len) => len,
            None => {
                let len = names.iter().position(|byte| *byte == b',').unwrap_or(names.len());
                if let Some(done) = go_on(&mut run, &names[..len], limits)? {
                    to(done)?;
                }
                len
            }
        };
        rest = names.get(len + 1..);
    }
    run.map_or(Ok(()), to)
}

/// Takes an expression apart.
fn walk(
    expression: &[u8],
    limits: &Limits,
    mut to: impl FnMut(Element) -> Result<(), MapError>,
) -> Result<(), MapError> {
    let mut scan = Scan::open(expression, limits)?;
    if scan.peek().is_none() {
        return Ok(());
    }
    loop {
        to(Element::read(&mut scan, limits)?)?;
        match scan.peek() {
            None => return Ok(()),
            Some(b',') => scan.take(b','),
            Some(_) => return Err(scan.wrong("a byte that no name can have")),
        };
    }
}

/// Returns the number of nodes with so many more.
fn more(nodes: usize, more: u64, limits: &Limits) -> Result<usize, MapError> {
    let more = more.checked_add(nodes as u64).filter(|nodes| *nodes <= limits.nodes as u64);
    let more = more.ok_or(MapError::TooLarge { limit: Limit::Nodes, max: limits.nodes as u64 })?;
    Ok(more as usize)
}

/// Two maps are the same when they name the same nodes in the same order, however they were written.
impl PartialEq for NodeMap {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.names().eq(other.names())
    }
}

impl Eq for NodeMap {}
