//! Node maps: names of nodes in order, kept as groups of names that differ in numbers only.
use super::element::{Element, SPECIAL, check_name};
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
            map.push(Element::read(&mut scan, limits)?, limits)?;
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
        Self::from_names_within(names, &Limits::default())
    }

    /// The same within other limits.
    ///
    /// # Errors
    /// As [`from_names`](NodeMap::from_names).
    pub fn from_names_within<N: AsRef<[u8]>>(
        names: impl IntoIterator<Item = N>,
        limits: &Limits,
    ) -> Result<Self, MapError> {
        let mut map = NodeMap::default();
        let mut run: Option<Run> = None;
        for name in names {
            let name = name.as_ref();
            if name.is_empty() || name.iter().any(|byte| SPECIAL.contains(byte)) {
                return Err(MapError::Name { name: name.to_vec() });
            }
            check_name(name.len(), limits)?;
            if !run.as_mut().is_some_and(|run| run.extend(name))
                && let Some(done) = run.replace(Run::One(name.to_vec()))
            {
                map.push(done.into_element(), limits)?;
            }
        }
        if let Some(last) = run {
            map.push(last.into_element(), limits)?;
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
        // Other libraries know one pair of brackets in a name and one width: what was parsed with more is put together anew.
        if !self.groups.iter().all(|group| group.element.is_simple())
            && let Ok(simple) = NodeMap::from_names_within(self.names(), &Limits::NONE)
        {
            return simple.to_text(form);
        }
        let mut text = form.opening().to_vec();
        for (index, group) in self.groups.iter().enumerate() {
            text.extend_from_slice(if index == 0 { b"" } else { b"," });
            group.element.write(form, &mut text);
        }
        text.extend_from_slice(form.closing());
        text
    }

    fn push(&mut self, element: Element, limits: &Limits) -> Result<(), MapError> {
        let len = element
            .count()
            .checked_add(self.len as u64)
            .filter(|len| *len <= limits.nodes as u64)
            .ok_or(MapError::TooLarge { limit: Limit::Nodes, max: limits.nodes as u64 })?;
        self.groups.push(Group { start: self.len, element });
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
