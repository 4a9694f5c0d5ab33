//! Names of numbers, and numbers of names. The texts are static: nobody frees them.
use std::ffi::{CString, OsStr};
use std::sync::OnceLock;

use instanton::data::{Channels, DataType, Status, keys, names};
use instanton::internal::client::{PROVISIONAL_ABI, STABLE_ABI};
use instanton::trace;
use libc::{c_char, c_int};

use super::values::text_of;
use crate::alloc;
use crate::boundary::export;
use crate::session;
use crate::text::TextBuilder;
use crate::types::*;

/// Functions that look one number up in one table.
macro_rules! tables {
    ($($name:ident($ty:ty) = $table:ident;)*) => {$(
        export! {
            /// The text of a number.
            fn $name(number: $ty) -> *const c_char {
                names::$table.pointer(number)
            }
        }
    )*};
}
tables! {
    PMIx_Proc_state_string(u8) = PROC_STATE;
    PMIx_Job_state_string(u8) = JOB_STATE;
    PMIx_Scope_string(u8) = SCOPE;
    PMIx_Persistence_string(u8) = PERSISTENCE;
    PMIx_Data_range_string(u8) = DATA_RANGE;
    PMIx_Link_state_string(u8) = LINK_STATE;
    PMIx_Alloc_directive_string(u8) = ALLOC_DIRECTIVE;
    PMIx_Alloc_inheritance_string(u8) = ALLOC_INHERITANCE;
    PMIx_Resource_block_directive_string(u8) = RESOURCE_BLOCK_DIRECTIVE;
    PMIx_Device_type_string(u64) = DEVICE_TYPE;
    PMIx_Value_comparison_string(u32) = VALUE_CMP;
    PMIx_Group_operation_string(u32) = GROUP_OPERATION;
}

export! {
    /// The text of a status: its name in the headers.
    fn PMIx_Error_string(status: c_int) -> *const c_char {
        Status(status).pointer()
    }

    /// The status of such a name.
    fn PMIx_Error_code(name: *const c_char) -> c_int {
        // The smallest integer stands for "no such name": no status has it.
        alloc::c_bytes(name).and_then(Status::from_name).map_or(c_int::MIN, |status| status.0)
    }

    /// The text of a data type: its name in the headers.
    fn PMIx_Data_type_string(ty: u16) -> *const c_char {
        // An initialised process hears that there is no such type, any other that it is not initialised.
        match DataType(ty).pointer() {
            Some(text) => text,
            None if session::is_initialized() => c"UNKNOWN".as_ptr(),
            None => DataType(ty).text().as_ptr(),
        }
    }

    /// The text of a set of channels.
    fn PMIx_IOF_channel_string(channels: u16) -> *const c_char {
        names::iof_channel_pointer(Channels(channels))
    }

    /// The text of an attribute's directives, the caller's to free.
    fn PMIx_Info_directives_string(flags: u32) -> *mut c_char {
        let mut text = TextBuilder::new();
        names::each_info_directive(flags, |piece| text.put(piece.as_bytes()));
        text.finish().unwrap_or(std::ptr::null_mut())
    }

    /// The name in the headers of a key; the key itself where it has none.
    fn PMIx_Get_attribute_name(key: *const c_char) -> *const c_char {
        alloc::c_bytes(key).and_then(keys::name_in_any_case).map_or(key, |name| name.as_ptr())
    }

    /// The key of a name in the headers; the name itself where it is none.
    fn PMIx_Get_attribute_string(name: *const c_char) -> *const c_char {
        alloc::c_bytes(name).and_then(keys::key_of).map_or(name, |key| key.as_ptr())
    }

    /// A text for a number of devices, the caller's to free.
    fn PMIx_Resource_unit_string(unit: *const pmix_resource_unit_t) -> *mut c_char {
        let Some(unit) = unit.as_ref() else { return std::ptr::null_mut() };
        text_of(Ok(format_args!("TYPE: {}  COUNT: {}", names::DEVICE_TYPE.text(unit.dtype), unit.count)))
    }
}

export! {
    /// The version of this library, and of the Standard it follows. Needs no initialised library.
    fn PMIx_Get_version() -> *const c_char {
        static SAID: OnceLock<CString> = OnceLock::new();
        SAID.get_or_init(|| version(std::env::var_os(VERSION_VARIABLE).as_deref())).as_ptr()
    }
}

/// Variable with the numbers that `PMIx_Get_version` says, and nothing else does: some hosts refuse a library of another
/// release than the one that they were built with.
const VERSION_VARIABLE: &str = "INSTANTON_VERSION";
/// Release of the headers.
const RELEASE: &str = "6.1.0";

/// One word, three numbers, and the Standard's version in brackets: programs take it apart.
fn version(said: Option<&OsStr>) -> CString {
    let is_number = |part: &str| !part.is_empty() && part.len() < 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_release = |text: &&str| text.split('.').count() == 3 && text.split('.').all(is_number);
    let said = said.and_then(|said| {
        let release = said.to_str().filter(is_release);
        if release.is_none() {
            trace!("{VERSION_VARIABLE} has no three numbers: {said:?}");
        }
        release
    });
    let release = said.unwrap_or(RELEASE);
    let abi = format!("Stable ABI: {STABLE_ABI}, Provisional ABI: {PROVISIONAL_ABI}");
    CString::new(format!("Instanton {release} (PMIx Standard: 4.2, {abi})")).expect("numbers and points")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_headers_or_what_the_user_says() {
        let said = |text: Option<&str>| version(text.map(OsStr::new)).into_string().unwrap();
        let rest = "(PMIx Standard: 4.2, Stable ABI: 1.0, Provisional ABI: 0.0)";
        assert_eq!(said(None), format!("Instanton 6.1.0 {rest}"));
        assert_eq!(said(Some("5.0.11")), format!("Instanton 5.0.11 {rest}"));
        for bad in ["", "5", "5.0", "5.0.", "5.0.11rc1", "5.0.11.1", "-5.0.1", "1000.0.0"] {
            assert_eq!(said(Some(bad)), said(None), "{bad:?}");
        }
    }
}
