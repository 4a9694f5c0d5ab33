//! Process maps: which ranks each node runs, kept as ranges.
use super::scan::Scan;
use super::{Form, Limit, Limits, MapError};
use crate::data::Rank;

/// Ranks that follow one another, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankRange {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

impl RankRange {
    /// Returns the number of ranks.
    pub fn count(self) -> u64 {
        u64::from(self.last) - u64::from(self.first) + 1
    }
}

/// The ranks on each node of a job (`PROC_MAP`), in the order of the node map.
///
/// Nodes without processes at the end have no representation. One in the middle is an empty element, so that
/// the nodes behind it keep their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcMap {
    /// The ranges of all nodes, one node after the other.
    ranges: Vec<RankRange>,
    /// For each node where its ranges end.
    ends: Vec<u32>,
}

impl ProcMap {
    /// Takes a process map expression apart, within the default [`Limits`].
    ///
    /// Behind a colon `2x(3)` stands for two nodes of three ranks each, which go on from the last rank before, or from
    /// 0. The sample of the Standard's text loses where its ranks start; this reading makes the form say something, and
    /// lets us write a map of equal blocks in a few bytes.
    ///
    /// # Errors
    /// [`MapError`] says what is wrong with it and where.
    pub fn parse(expression: &[u8]) -> Result<Self, MapError> {
        Self::parse_within(expression, &Limits::default())
    }

    /// Parses an expression within other limits.
    ///
    /// # Errors
    /// As [`parse`](ProcMap::parse).
    pub fn parse_within(expression: &[u8], limits: &Limits) -> Result<Self, MapError> {
        let mut map = ProcMap::default();
        walk(expression, limits, &mut map)?;
        Ok(map.finish())
    }

    /// Gives `to` every range of an expression with the place of its node, as they come, and keeps none.
    ///
    /// # Errors
    /// As [`parse`](ProcMap::parse), after `to` has had what is in front of the mistake.
    pub(crate) fn each_range(expression: &[u8], to: &mut impl RangesOfNodes) -> Result<ReadMap, MapError> {
        let each = !(expression.starts_with(b"pmix[") || expression.starts_with(b"pmix:"));
        let mut ordered = Ordered { to, node: 0, next: 0, each, in_order: true, shortest: true, ends_empty: true };
        let form = walk(expression, &Limits::default(), &mut ordered)?;
        let Ordered { in_order, shortest, ends_empty, .. } = ordered;
        Ok(ReadMap { form: form.filter(|_| shortest && !ends_empty), in_order })
    }

    /// A map of these ranks, one list a node.
    ///
    /// # Errors
    /// [`MapError`] when there are too many, or one is no rank of a process.
    pub fn from_ranks<N: IntoIterator<Item = u32>>(nodes: impl IntoIterator<Item = N>) -> Result<Self, MapError> {
        let limits = Limits::default();
        let mut map = ProcMap::default();
        let mut counted = Counted::new(&limits, &mut map);
        for node in nodes {
            for rank in node {
                if !Rank(rank).is_process() {
                    return Err(MapError::Rank { rank });
                }
                counted.add(RankRange { first: rank, last: rank })?;
            }
            counted.end_node()?;
        }
        Ok(map.finish())
    }

    /// Leaves out nodes at the end that run nothing.
    fn finish(mut self) -> Self {
        let before = |ends: &[u32]| ends.len().checked_sub(2).map_or(0, |before| ends[before]);
        while self.ends.last().is_some_and(|end| *end == before(&self.ends)) {
            self.ends.pop();
        }
        self
    }

    /// Returns the number of nodes, up to the last one that runs something.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The ranks of a node as ranges, in the order they were given; none where there is no such node.
    pub fn ranges(&self, node: usize) -> &[RankRange] {
        let Some(end) = self.ends.get(node) else { return &[] };
        let start = node.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.ranges[start as usize..*end as usize]
    }

    /// The ranks of a node one by one.
    pub fn ranks(&self, node: usize) -> impl Iterator<Item = u32> + '_ {
        self.ranges(node).iter().flat_map(|range| range.first..=range.last)
    }

    /// Every node's ranges.
    pub fn nodes(&self) -> impl Iterator<Item = &[RankRange]> {
        (0..self.len()).map(|node| self.ranges(node))
    }

    /// Returns the number of ranks on all nodes together.
    pub fn rank_count(&self) -> u64 {
        self.ranges.iter().map(|range| range.count()).sum()
    }

    /// The expression of this map, which [`parse`](ProcMap::parse) takes apart again. Plain and raw lists name every
    /// rank.
    pub fn to_text(&self, form: Form) -> Vec<u8> {
        let mut text = form.opening().to_vec();
        let mut next = Some(0);
        let mut node = 0;
        while node < self.len() {
            if node > 0 {
                text.push(b';');
            }
            let blocks = if form == Form::Colon { self.blocks(node, next) } else { 0 };
            if blocks > 1 {
                text.extend_from_slice(format!("{blocks}x({})", self.ranges(node)[0].count()).as_bytes());
                node += blocks;
            } else {
                self.write_node(node, form, &mut text);
                node += 1;
            }
            next = self.ranges(node - 1).last().map_or(next, |range| range.last.checked_add(1));
        }
        text.extend_from_slice(form.closing());
        text
    }

    /// Returns the number of nodes, from this one on, that have one range each, all of the same length, in a row from
    /// `next`.
    fn blocks(&self, node: usize, mut next: Option<u32>) -> usize {
        let [block] = self.ranges(node) else { return 0 };
        let follows = |node: &usize| match self.ranges(*node) {
            [range] if Some(range.first) == next && range.count() == block.count() => {
                next = range.last.checked_add(1);
                true
            }
            _ => false,
        };
        (node..self.len()).take_while(follows).count()
    }

    fn write_node(&self, node: usize, form: Form, text: &mut Vec<u8>) {
        let mut separator = "";
        let mut write = |part: String| {
            text.extend_from_slice(separator.as_bytes());
            text.extend_from_slice(part.as_bytes());
            separator = ",";
        };
        if matches!(form, Form::Plain | Form::Raw) {
            return self.ranks(node).for_each(|rank| write(rank.to_string()));
        }
        for range in self.ranges(node) {
            write(match range.count() {
                1 => range.first.to_string(),
                _ => format!("{}-{}", range.first, range.last),
            });
        }
    }
}

/// Receiver of the ranks of nodes, as ranges, with the place of the node.
pub(crate) trait RangesOfNodes {
    /// The rank of this node, of the next one, and so on: nobody else has ranks there.
    fn lone(&mut self, node: u32, ranks: &[u32]) {
        (node..).zip(ranks).for_each(|(node, rank)| self.each(node, &[*rank]));
    }

    /// Ranks one by one.
    fn each(&mut self, node: u32, ranks: &[u32]);

    /// Ranks that follow one another, or one.
    fn range(&mut self, node: u32, range: RankRange);
}

/// Receiver of the parts of an expression, one after the other.
trait Steps {
    /// Ranks of the node that we are at, one by one.
    fn each(&mut self, ranks: &[u32]) {
        ranks.iter().for_each(|rank| self.range(RankRange { first: *rank, last: *rank }));
    }

    /// The rank of the node that we are at, of the next one, and so on; all of these are complete.
    fn lone(&mut self, ranks: &[u32]) {
        for rank in ranks {
            self.each(&[*rank]);
            self.next_node();
        }
    }

    /// Ranks of the node that we are at which follow one another.
    fn range(&mut self, range: RankRange);

    /// The node is complete.
    fn next_node(&mut self);
}

/// Ranges that follow one another become one.
impl Steps for ProcMap {
    fn range(&mut self, range: RankRange) {
        let complete = self.ends.last().map_or(0, |end| *end as usize);
        match self.ranges[complete..].last_mut() {
            Some(last) if u64::from(last.last) + 1 == u64::from(range.first) => last.last = range.last,
            _ => self.ranges.push(range),
        }
    }

    fn next_node(&mut self) {
        self.ends.push(self.ranges.len() as u32);
    }
}

/// Properties of a map that are seen while it is taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadMap {
    /// The form of one that is, letter by letter, what [`to_text`](ProcMap::to_text) writes in that form. (Where that
    /// writes equal blocks as such, it is the other way to write them.)
    pub(crate) form: Option<Form>,
    /// True if the ranks of each node come in the order of their numbers.
    pub(crate) in_order: bool,
}

/// Counts nodes, and sees how the ranks of each come.
struct Ordered<'a, T> {
    to: &'a mut T,
    node: u32,
    /// The rank that follows the last one; 0 only where the node has none yet.
    next: u64,
    /// True if ranks are named one by one.
    each: bool,
    in_order: bool,
    /// True if ranks that follow one another are a range, where there are ranges.
    shortest: bool,
    /// True if the node before this has no ranks.
    ends_empty: bool,
}

impl<T: RangesOfNodes> Ordered<'_, T> {
    #[inline(always)]
    fn come(&mut self, first: u32, last: u32) {
        let first = u64::from(first);
        self.in_order &= first >= self.next;
        self.shortest &= self.each || first != self.next || first == 0;
        self.next = u64::from(last) + 1;
    }
}

impl<T: RangesOfNodes> Steps for Ordered<'_, T> {
    fn each(&mut self, ranks: &[u32]) {
        ranks.iter().for_each(|rank| self.come(*rank, *rank));
        self.to.each(self.node, ranks);
    }

    fn lone(&mut self, ranks: &[u32]) {
        self.to.lone(self.node, ranks);
        self.ends_empty &= ranks.is_empty();
        self.node += ranks.len() as u32;
    }

    fn range(&mut self, range: RankRange) {
        self.come(range.first, range.last);
        self.shortest &= !self.each || range.first == range.last;
        self.to.range(self.node, range);
    }

    fn next_node(&mut self) {
        self.ends_empty = self.next == 0;
        (self.node, self.next) = (self.node + 1, 0);
    }
}

/// Takes an expression apart. Answers its form, if numbers and ranges are written in it as we write them.
fn walk(expression: &[u8], limits: &Limits, to: &mut impl Steps) -> Result<Option<Form>, MapError> {
    let mut scan = Scan::open(expression, limits)?;
    let (mut counted, mut some) = (Counted::new(limits, to), [0; SOME]);
    loop {
        loop {
            let count = scan.lone_numbers(&mut some);
            counted.add_lone(&some[..count])?;
            if count < SOME {
                break;
            }
        }
        node(&mut scan, &mut counted, &mut some)?;
        match scan.peek() {
            None => return Ok(scan.form()),
            Some(b';') => scan.take(b';'),
            Some(_) => return Err(scan.wrong("something where a , or ; belongs")),
        };
    }
}

/// Ranks that are read before anybody looks at them: what follows is done to one after the other then, which takes less
/// time where each has its place elsewhere in memory.
const SOME: usize = 64;

/// One element: the ranks of a node, or several equal nodes at once.
fn node(scan: &mut Scan<'_>, map: &mut Counted<'_, impl Steps>, some: &mut [u32; SOME]) -> Result<(), MapError> {
    if matches!(scan.peek(), None | Some(b';')) {
        return map.end_node();
    }
    loop {
        let (count, ends) = scan.short_numbers(some);
        map.add_each(&some[..count])?;
        if count == 0 && some_ranks(scan, map)? {
            return Ok(());
        }
        if ends || (count == 0 && !scan.take(b',')) {
            return map.end_node();
        }
    }
}

/// Ranks of a node in any way to write them; or several equal nodes at once, if the answer is true.
fn some_ranks(scan: &mut Scan<'_>, map: &mut Counted<'_, impl Steps>) -> Result<bool, MapError> {
    let span = scan.span()?;
    if span.first == span.last && scan.take(b'x') {
        return blocks(scan, span.first, map).map(|()| true);
    }
    let rank = |number| u32::try_from(number).ok().filter(|rank| Rank(*rank).is_process());
    let (Some(first), Some(last)) = (rank(span.first), rank(span.last)) else {
        return Err(scan.wrong("a number that is no rank"));
    };
    map.add(RankRange { first, last }).map(|()| false)
}

/// `(3)` behind the `2x` of `2x(3)`.
fn blocks(scan: &mut Scan<'_>, nodes: u64, map: &mut Counted<'_, impl Steps>) -> Result<(), MapError> {
    scan.is_odd();
    let paired = scan.take(b'(');
    let (size, _) = scan.number()?;
    if !paired || !scan.take(b')') || !map.empty {
        return Err(scan.wrong("something else than `2x(3)`"));
    }
    for _ in 0..nodes {
        map.add_block(size)?;
        map.end_node()?;
    }
    Ok(())
}

/// Steps on their way, counted against the limits.
struct Counted<'a, S> {
    to: &'a mut S,
    limits: &'a Limits,
    ranks: u64,
    nodes: usize,
    /// True if the node has no ranks yet.
    empty: bool,
    /// The rank that follows the last one.
    next: u64,
}

impl<'a, S: Steps> Counted<'a, S> {
    fn new(limits: &'a Limits, to: &'a mut S) -> Self {
        Self { to, limits, ranks: 0, nodes: 0, empty: true, next: 0 }
    }

    fn add(&mut self, range: RankRange) -> Result<(), MapError> {
        self.count(range.count(), range.last)?;
        self.to.range(range);
        Ok(())
    }

    fn add_each(&mut self, ranks: &[u32]) -> Result<(), MapError> {
        if let Some(last) = ranks.last() {
            self.count(ranks.len() as u64, *last)?;
            self.to.each(ranks);
        }
        Ok(())
    }

    fn add_lone(&mut self, ranks: &[u32]) -> Result<(), MapError> {
        let Some(last) = ranks.last() else { return Ok(()) };
        self.count(ranks.len() as u64, *last)?;
        self.nodes += ranks.len();
        self.empty = true;
        if self.nodes > self.limits.nodes {
            return Err(MapError::TooLarge { limit: Limit::Nodes, max: self.limits.nodes as u64 });
        }
        self.to.lone(ranks);
        Ok(())
    }

    /// Counts ranks, and the last of them.
    fn count(&mut self, ranks: u64, last: u32) -> Result<(), MapError> {
        self.ranks += ranks;
        // The end of a range is kept in 32 bits, and a range has a rank at least.
        if self.ranks > self.limits.ranks.min(u32::MAX.into()) {
            return Err(self.too_many_ranks());
        }
        self.next = u64::from(last) + 1;
        self.empty = false;
        Ok(())
    }

    /// So many ranks after the last one.
    fn add_block(&mut self, size: u64) -> Result<(), MapError> {
        if size == 0 {
            return Ok(());
        }
        let last = self.next.checked_add(size - 1).and_then(|last| u32::try_from(last).ok());
        match (u32::try_from(self.next), last.filter(|last| Rank(*last).is_process())) {
            (Ok(first), Some(last)) => self.add(RankRange { first, last }),
            _ => Err(self.too_many_ranks()),
        }
    }

    fn end_node(&mut self) -> Result<(), MapError> {
        if self.nodes >= self.limits.nodes {
            return Err(MapError::TooLarge { limit: Limit::Nodes, max: self.limits.nodes as u64 });
        }
        self.nodes += 1;
        self.empty = true;
        self.to.next_node();
        Ok(())
    }

    #[cold]
    fn too_many_ranks(&self) -> MapError {
        MapError::TooLarge { limit: Limit::Ranks, max: self.limits.ranks }
    }
}
