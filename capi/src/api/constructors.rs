//! `PMIx_*_construct`, `_destruct`, `_create` and `_free` of every structure, all from what [`Owned`] knows of it.
use libc::c_char;

use crate::alloc;
use crate::boundary::export;
use crate::owned::{Owned, create, release_array};
use crate::types::*;

/// The four functions of a structure. NULL is no structure: nothing is done with it.
macro_rules! family {
    ($($ty:ty: $($construct:ident)? / $($destruct:ident)? / $($create:ident)? / $($free:ident)?;)*) => {$(
        $(export! {
            /// Constructs a structure in memory of the caller.
            fn $construct(p: *mut $ty) {
                if !p.is_null() {
                    p.write(<$ty>::constructed());
                }
            }
        })?
        $(export! {
            /// Frees what a structure owns.
            fn $destruct(p: *mut $ty) {
                if let Some(p) = p.as_mut() {
                    p.clear();
                }
            }
        })?
        $(export! {
            /// An array of constructed structures.
            fn $create(n: usize) -> *mut $ty {
                create(n)
            }
        })?
        $(export! {
            /// Destructs the elements of an array and frees it.
            fn $free(p: *mut $ty, n: usize) {
                release_array(p, n);
            }
        })?
    )*};
}

family! {
    pmix_app_t: PMIx_App_construct / PMIx_App_destruct / PMIx_App_create / PMIx_App_free;
    pmix_byte_object_t: PMIx_Byte_object_construct / PMIx_Byte_object_destruct / PMIx_Byte_object_create / PMIx_Byte_object_free;
    pmix_coord_t: PMIx_Coord_construct / PMIx_Coord_destruct / / PMIx_Coord_free;
    pmix_cpuset_t: PMIx_Cpuset_construct / PMIx_Cpuset_destruct / PMIx_Cpuset_create / PMIx_Cpuset_free;
    pmix_data_buffer_t: PMIx_Data_buffer_construct / PMIx_Data_buffer_destruct / / ;
    pmix_device_distance_t: PMIx_Device_distance_construct / PMIx_Device_distance_destruct / PMIx_Device_distance_create / PMIx_Device_distance_free;
    pmix_device_t: PMIx_Device_construct / PMIx_Device_destruct / PMIx_Device_create / PMIx_Device_free;
    pmix_disk_stats_t: PMIx_Disk_stats_construct / PMIx_Disk_stats_destruct / PMIx_Disk_stats_create / PMIx_Disk_stats_free;
    pmix_endpoint_t: PMIx_Endpoint_construct / PMIx_Endpoint_destruct / PMIx_Endpoint_create / PMIx_Endpoint_free;
    pmix_envar_t: PMIx_Envar_construct / PMIx_Envar_destruct / PMIx_Envar_create / PMIx_Envar_free;
    pmix_geometry_t: PMIx_Geometry_construct / PMIx_Geometry_destruct / PMIx_Geometry_create / PMIx_Geometry_free;
    pmix_info_t: PMIx_Info_construct / PMIx_Info_destruct / / PMIx_Info_free;
    pmix_net_stats_t: PMIx_Net_stats_construct / PMIx_Net_stats_destruct / PMIx_Net_stats_create / PMIx_Net_stats_free;
    pmix_node_pid_t: PMIx_Node_pid_construct / PMIx_Node_pid_destruct / PMIx_Node_pid_create / PMIx_Node_pid_free;
    pmix_node_stats_t: PMIx_Node_stats_construct / PMIx_Node_stats_destruct / PMIx_Node_stats_create / PMIx_Node_stats_free;
    pmix_pdata_t: PMIx_Pdata_construct / PMIx_Pdata_destruct / PMIx_Pdata_create / PMIx_Pdata_free;
    pmix_proc_info_t: PMIx_Proc_info_construct / PMIx_Proc_info_destruct / PMIx_Proc_info_create / PMIx_Proc_info_free;
    pmix_proc_stats_t: PMIx_Proc_stats_construct / PMIx_Proc_stats_destruct / PMIx_Proc_stats_create / PMIx_Proc_stats_free;
    pmix_proc_t: PMIx_Proc_construct / PMIx_Proc_destruct / PMIx_Proc_create / PMIx_Proc_free;
    pmix_query_t: PMIx_Query_construct / PMIx_Query_destruct / PMIx_Query_create / PMIx_Query_free;
    pmix_regattr_t: PMIx_Regattr_construct / PMIx_Regattr_destruct / PMIx_Regattr_create / PMIx_Regattr_free;
    pmix_regex2_t: PMIx_Regex2_construct / PMIx_Regex2_destruct / PMIx_Regex2_create / PMIx_Regex2_free;
    pmix_resource_unit_t: PMIx_Resource_unit_construct / PMIx_Resource_unit_destruct / PMIx_Resource_unit_create / PMIx_Resource_unit_free;
    pmix_topology_t: PMIx_Topology_construct / PMIx_Topology_destruct / PMIx_Topology_create / PMIx_Topology_free;
    pmix_value_t: PMIx_Value_construct / PMIx_Value_destruct / PMIx_Value_create / PMIx_Value_free;
}

export! {
    /// An array of constructed attributes. Behind it lies one more, all zeros: PRRTE 3.0 destructs that as well,
    /// whenever processes connect.
    fn PMIx_Info_create(n: usize) -> *mut pmix_info_t {
        if n == 0 { std::ptr::null_mut() } else { create(n.saturating_add(1)) }
    }
}

export! {
    /// Fabrics have nothing but this: the program that registers one frees it.
    fn PMIx_Fabric_construct(p: *mut pmix_fabric_t) {
        if !p.is_null() {
            p.write_bytes(0, 1);
        }
    }

    /// `number` coordinates of `dims` dimensions each.
    fn PMIx_Coord_create(dims: usize, number: usize) -> *mut pmix_coord_t {
        let coords = create::<pmix_coord_t>(number);
        for i in 0..if coords.is_null() { 0 } else { number } {
            let coord = &mut *coords.add(i);
            coord.coord = alloc::zeroed(dims);
            coord.dims = if coord.coord.is_null() { 0 } else { dims };
        }
        coords
    }

    /// Destructs one application and frees it.
    fn PMIx_App_release(p: *mut pmix_app_t) {
        release_array(p, 1);
    }

    /// Gives an application `n` attributes.
    fn PMIx_App_info_create(p: *mut pmix_app_t, n: usize) {
        if let Some(p) = p.as_mut() {
            p.info = create(n);
            p.ninfo = if p.info.is_null() { 0 } else { n };
        }
    }

    /// Destructs one query and frees it.
    fn PMIx_Query_release(p: *mut pmix_query_t) {
        release_array(p, 1);
    }

    /// Gives a query `n` qualifiers.
    fn PMIx_Query_qualifiers_create(p: *mut pmix_query_t, n: usize) {
        if let Some(p) = p.as_mut() {
            p.qualifiers = create(n);
            p.nqual = if p.qualifiers.is_null() { 0 } else { n };
        }
    }

    /// Fills an environment variable with copies.
    fn PMIx_Envar_load(e: *mut pmix_envar_t, var: *mut c_char, value: *mut c_char, separator: c_char) {
        if let (Some(e), Ok(new)) = (e.as_mut(), (pmix_envar_t { envar: var, value, separator }).dup()) {
            *e = new;
        }
    }

    /// Fills a constructed description of an attribute with copies. Members that are not given stay as they are, and
    /// words are added to those that are there.
    fn PMIx_Regattr_load(
        p: *mut pmix_regattr_t, name: *const c_char, key: *const c_char, ty: u16, description: *const c_char,
    ) {
        let Some(p) = p.as_mut() else { return };
        p.ty = ty;
        if let (false, Ok(new)) = (name.is_null(), crate::owned::dup_text(name)) {
            alloc::release(std::mem::replace(&mut p.name, new));
        }
        if let Some(key) = alloc::c_bytes(key) {
            alloc::set_name(&mut p.string, key);
        }
        if !description.is_null() {
            super::argv::PMIx_Argv_append_nosize(&raw mut p.description, description);
        }
    }

    /// Copies a description of an attribute.
    fn PMIx_Regattr_xfer(dest: *mut pmix_regattr_t, src: *const pmix_regattr_t) {
        if let (Some(dest), Some(Ok(new))) = (dest.as_mut(), src.as_ref().map(|src| src.dup())) {
            *dest = new;
        }
    }

    /// Returns whether a rank is that of a process, and no wildcard.
    fn PMIx_Rank_valid(rank: u32) -> bool {
        instanton::data::Rank(rank).is_process()
    }
}
