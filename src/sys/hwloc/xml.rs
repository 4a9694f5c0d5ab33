//! XML of topologies that others have written, looked at before hwloc reads it: that believes what it finds, makes a set
//! as large as the largest number, and comes to grief where an object has no set, or one that does not begin as sets do.
use super::number;

/// Numbers of objects end below this one. Some are numbers of the firmware's, which are larger than those of units.
const MAX_INDEX: u32 = 1 << 20;
/// Sets that every object has which is no device.
const SETS: [&[u8]; 4] = [b"cpuset", b"complete_cpuset", b"nodeset", b"complete_nodeset"];
const WITHOUT_SETS: [&[u8]; 4] = [b"Bridge", b"PCIDev", b"OSDev", b"Misc"];

/// Returns whether it is XML as hwloc writes it, and hwloc makes no more of it than its length allows.
pub fn is_sound(xml: &[u8]) -> bool {
    // Entities and other encodings hide what is there.
    let hides = |what: &[u8]| xml.windows(what.len()).any(|bytes| bytes.eq_ignore_ascii_case(what));
    let encoding = |text: &[u8]| text.get(..8).is_some_and(|name| name.eq_ignore_ascii_case(b"=\"utf-8\""));
    let index = |text: &[u8]| quoted(text).and_then(number).is_some_and(|number| number < MAX_INDEX);
    let set = |text: &[u8]| {
        let is_name = text.first().is_some_and(|byte| *byte == b'=' || byte.is_ascii_whitespace());
        !is_name || quoted(text).is_some_and(is_set)
    };
    let mut objects = behind(xml, b"<object");
    !hides(b"<!entity")
        && behind(xml, b"encoding").all(encoding)
        && behind(xml, b"os_index").all(index)
        && behind(xml, b"cpuset").chain(behind(xml, b"nodeset")).all(set)
        && objects.next().is_some_and(|text| is_object(text, true))
        && objects.all(|text| is_object(text, false))
}

/// The text behind each place of a name.
fn behind<'a>(text: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let places = text.windows(name.len()).enumerate().filter(move |(_, bytes)| *bytes == name);
    places.map(move |(at, _)| &text[at + name.len()..])
}

/// The value in `="value"`.
fn quoted(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"=\"")?.split(|byte| *byte == b'"').next()
}

/// `0x00000003`, `0xf...f,0x00000000`: words from the highest on, of which later ones may be left out.
fn is_set(text: &[u8]) -> bool {
    let word = |text: &[u8]| {
        let digits = text.strip_prefix(b"0x").unwrap_or_default();
        digits == b"f...f" || ((1..=8).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit))
    };
    let mut words = text.split(|byte| *byte == b',');
    words.next().is_some_and(word) && words.all(|text| text.is_empty() || word(text))
}

/// Returns whether the attributes of an object are those that hwloc writes; the first object is the machine.
fn is_object(text: &[u8], first: bool) -> bool {
    let tag = text.split(|byte| *byte == b'>').next().unwrap_or_default();
    let Some(attributes) = attributes(tag) else { return false };
    let Some((b"type", ty)) = attributes.first() else { return false };
    let count = |name: &[u8]| attributes.iter().filter(|(other, _)| *other == name).count();
    let has_sets = usize::from(!WITHOUT_SETS.contains(ty));
    let allowed = usize::from(first);
    first == (*ty == b"Machine")
        && SETS.iter().all(|name| count(name) == has_sets)
        && [&b"allowed_cpuset"[..], b"allowed_nodeset"].iter().all(|name| count(name) == allowed)
        && count(b"type") == 1
        && count(b"os_index") == usize::from([&b"PU"[..], b"NUMANode"].contains(ty)).max(count(b"os_index").min(1))
}

/// The attributes of a tag; none where there is something else.
fn attributes(mut tag: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut all = Vec::new();
    while !matches!(tag, b"" | b"/") {
        let rest = tag.strip_prefix(b" ")?;
        let (name, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'=')?);
        let value = quoted(rest)?;
        tag = rest.get(value.len() + 3..)?;
        all.push((name, value));
    }
    Some(all)
}
