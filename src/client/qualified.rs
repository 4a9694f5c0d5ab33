//! Values that several attributes tell apart beside their key (`PMIX_QUALIFIED_VALUE`).
//!
//! Such a value lies under its key with a number behind it that stands for its qualifiers, whatever their order: only
//! who puts and who gets it knows of them. A reserved key stays one, so nobody waits for it.
use instanton_layout::hash::hash;

use crate::data::archive::to_archive;
use crate::data::{Info, Key, Status, Value, constants::info_directives::INFO_QUALIFIER, keys};
use crate::message::key_in_context;

use super::Directives;

fn is_qualifier(info: &Info) -> bool {
    info.flags & INFO_QUALIFIER != 0
}

/// The key under which a value with these qualifiers lies.
fn qualified(key: &[u8], qualifiers: &[&Info]) -> Result<Key, Status> {
    let mut number = 0u64;
    for info in qualifiers {
        let value = to_archive(&info.value).map_err(|error| error.status())?;
        number = number.wrapping_add(hash(&[info.key.as_bytes(), &[0], &value].concat()));
    }
    Key::new([key, format!("@{number:x}").as_bytes()].concat()).map_err(|_| Status::ERR_BAD_PARAM)
}

/// Returns the key and the value that a Put of this puts: the value in it that is no qualifier, under the key that goes
/// with the others.
pub(super) fn unfold(value: &Value) -> Result<(Key, Value), Status> {
    let infos: Vec<&Info> = value.as_array().ok_or(Status::ERR_BAD_PARAM)?.infos().collect();
    let (qualifiers, values): (Vec<&Info>, Vec<&Info>) = infos.into_iter().partition(|info| is_qualifier(info));
    let [Info { key, value, .. }] = values[..] else { return Err(Status::ERR_BAD_PARAM) };
    let key = match qualifiers[..] {
        [] => key.clone(),
        // As what is given to a group has it.
        [Info { key: by, value: id, .. }] if *by == keys::GROUP_CONTEXT_ID => {
            id.as_u64().and_then(|id| key_in_context(id, key.as_bytes())).ok_or(Status::ERR_BAD_PARAM)?
        }
        _ => qualified(key.as_bytes(), &qualifiers)?,
    };
    Ok((key, value.clone()))
}

impl Directives {
    /// The key that a Get means where its attributes say more of it than the key alone; none where they do not.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a key that is too long.
    #[inline]
    pub fn qualify(&mut self, key: &[u8]) -> Result<Option<Key>, Status> {
        match self.rest.is_empty() && self.context.is_none() && !self.names_place {
            true => Ok(None),
            false => self.qualify_by_rest(key),
        }
    }

    fn qualify_by_rest(&mut self, key: &[u8]) -> Result<Option<Key>, Status> {
        self.settle(key);
        if !self.rest.iter().any(is_qualifier) {
            return self.in_context(key);
        }
        let (qualifiers, rest) = std::mem::take(&mut self.rest).into_iter().partition(is_qualifier);
        self.rest = rest;
        let qualifiers: Vec<Info> = qualifiers;
        qualified(key, &qualifiers.iter().collect::<Vec<_>>()).map(Some)
    }
}
