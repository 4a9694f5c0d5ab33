//! Names by which the macros of 3.x headers call helpers. Later headers have other names for the same, and programs that
//! were built with the older ones still import these.
use libc::{c_char, c_int, c_void};

use super::{argv, values};
use crate::boundary::export;
use crate::types::*;

export! {
    /// `PMIx_Argv_append_nosize`.
    fn pmix_argv_append_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> c_int {
        argv::PMIx_Argv_append_nosize(argv, arg)
    }

    /// `PMIx_Argv_append_unique_nosize`. Some releases say in a third argument whether one that is there is replaced by
    /// its equal, which is all the same.
    fn pmix_argv_append_unique_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> c_int {
        argv::PMIx_Argv_append_unique_nosize(argv, arg)
    }

    /// `PMIx_Argv_prepend_nosize`.
    fn pmix_argv_prepend_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> c_int {
        argv::PMIx_Argv_prepend_nosize(argv, arg)
    }

    /// `PMIx_Argv_copy`.
    fn pmix_argv_copy(argv: *mut *mut c_char) -> *mut *mut c_char {
        argv::PMIx_Argv_copy(argv)
    }

    /// `PMIx_Argv_count`.
    fn pmix_argv_count(argv: *mut *mut c_char) -> c_int {
        argv::PMIx_Argv_count(argv)
    }

    /// `PMIx_Argv_free`.
    fn pmix_argv_free(argv: *mut *mut c_char) {
        argv::PMIx_Argv_free(argv);
    }

    /// `PMIx_Argv_join`.
    fn pmix_argv_join(argv: *mut *mut c_char, delimiter: c_int) -> *mut c_char {
        argv::PMIx_Argv_join(argv, delimiter)
    }

    /// `PMIx_Argv_split`.
    fn pmix_argv_split(text: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        argv::PMIx_Argv_split(text, delimiter)
    }

    /// `PMIx_Setenv`.
    fn pmix_setenv(name: *const c_char, value: *const c_char, overwrite: u8, env: *mut *mut *mut c_char) -> c_int {
        argv::PMIx_Setenv(name, value, overwrite, env)
    }

    /// `PMIx_Value_load`, of which nobody heard whether it failed.
    fn pmix_value_load(value: *mut pmix_value_t, data: *const c_void, ty: u16) {
        values::PMIx_Value_load(value, data, ty);
    }

    /// `PMIx_Value_unload`.
    fn pmix_value_unload(value: *mut pmix_value_t, data: *mut *mut c_void, size: *mut usize) -> c_int {
        values::PMIx_Value_unload(value, data, size)
    }

    /// `PMIx_Value_xfer`.
    fn pmix_value_xfer(dest: *mut pmix_value_t, src: *const pmix_value_t) -> c_int {
        values::PMIx_Value_xfer(dest, src)
    }
}
