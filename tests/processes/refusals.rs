//! Calls that the kernel refuses a process, by a filter that its children and programs inherit.
use std::thread;

use nix::errno::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Has the kernel refuse a call of this process from now on.
pub fn refuse(call: &str, errno: Errno) {
    const CLONE_THREAD: u64 = 0x1_0000;
    const SO_PEERPIDFD: u64 = 77;
    let when = |argument, value, op| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, op, value).unwrap();
        vec![SeccompRule::new(vec![condition]).unwrap()]
    };
    let rules: Vec<(libc::c_long, Vec<SeccompRule>, Errno)> = match call {
        "memfd_create" => vec![(libc::SYS_memfd_create, vec![], errno)],
        "fallocate" => vec![(libc::SYS_fallocate, vec![], errno)],
        "pidfd_open" => vec![
            (libc::SYS_pidfd_open, vec![], errno),
            (libc::SYS_getsockopt, when(2, SO_PEERPIDFD, SeccompCmpOp::Eq), Errno::ENOPROTOOPT),
        ],
        "futex_waitv" => vec![(libc::SYS_futex_waitv, vec![], errno)],
        "epoll_create" => vec![(libc::SYS_epoll_create1, vec![], errno)],
        "flock" => vec![(libc::SYS_flock, vec![], errno)],
        // The C library asks the newer call first, whose flags lie in memory.
        "clone" => vec![
            (libc::SYS_clone3, vec![], Errno::ENOSYS),
            (libc::SYS_clone, when(0, CLONE_THREAD, SeccompCmpOp::MaskedEq(CLONE_THREAD)), errno),
        ],
        "fork" => vec![
            (libc::SYS_clone3, vec![], Errno::ENOSYS),
            (libc::SYS_clone, when(0, 0, SeccompCmpOp::MaskedEq(CLONE_THREAD)), errno),
        ],
        other => panic!("no such call: {other}"),
    };
    for (number, rules, errno) in rules {
        seccompiler::apply_filter_all_threads(&filter(number, rules, errno)).unwrap();
    }
}

fn filter(call: libc::c_long, rules: Vec<SeccompRule>, errno: Errno) -> BpfProgram {
    let answer = SeccompAction::Errno(errno as u32);
    let machine = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new([(call, rules)].into(), SeccompAction::Allow, answer, machine);
    filter.unwrap().try_into().unwrap()
}

/// Returns whether the kernel refuses calls where one asks for that; says so where not.
pub fn can_refuse() -> bool {
    let filter = filter(libc::SYS_pidfd_open, Vec::new(), Errno::ENOSYS);
    let result = thread::spawn(move || seccompiler::apply_filter(&filter)).join().unwrap();
    result.inspect_err(|error| println!("SKIPPED: no call can be refused here: {error}")).is_ok()
}
