//! Readers cannot do harm: what they are given can be neither written nor resized.
use std::os::fd::AsRawFd;

use memmap2::MmapOptions;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};

use super::*;

#[test]
fn a_segment_can_only_be_read() {
    let mut writer = writer(&Limits::default());
    post(&mut writer, 0, "k", 1u32).unwrap();
    let segments = writer.segments(&Have::default());
    assert_eq!(segments.len(), 3);
    for (id, fd) in segments {
        assert!(MmapOptions::new().map_raw(fd.as_raw_fd()).is_err(), "{id:?} was mapped writable");
        assert!(nix::unistd::ftruncate(fd, 0).is_err(), "{id:?} was shortened");
        assert_eq!(fstat(fd).unwrap().st_mode & 0o777, 0o444);
        // A process that may open it for writing (root may) can do nothing with that.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        if let Ok(writable) = open(path.as_str(), OFlag::O_RDWR, Mode::empty()) {
            assert!(
                MmapOptions::new().map_raw(writable.as_raw_fd()).is_err(),
                "{id:?} was reopened and mapped writable"
            );
            assert!(nix::unistd::write(&writable, b"x").is_err(), "{id:?} was written");
            assert!(nix::unistd::ftruncate(&writable, 0).is_err(), "{id:?} was shortened");
        }
        let allocated = fstat(fd).unwrap();
        assert!(allocated.st_blocks * 512 >= allocated.st_size, "{id:?} has holes");
    }
    let page = writer.make_reader_page().unwrap();
    assert!(nix::unistd::ftruncate(page.as_fd(), 0).is_err(), "a reader page was shortened");
}

#[test]
fn what_could_be_shortened_is_not_mapped() {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let fd = memfd_create("unsealed", MFdFlags::MFD_CLOEXEC).unwrap();
    nix::unistd::ftruncate(&fd, 4096).unwrap();
    assert!(matches!(MappedSegment::map(fd.as_fd()), Err(AttachError::Map(MapError::Unsealed { .. }))));
    let mut writer = writer(&Limits::default());
    let page = writer.make_reader_page().unwrap();
    assert!(matches!(MappedSegment::map(page.as_fd()), Err(AttachError::Unexpected(_))), "a page is no segment");
    let (_, fd) = writer.segments(&Have::default())[0];
    assert!(ReaderPage::map(fd).is_err(), "a segment is no page");
}

#[test]
fn segments_of_two_jobs_do_not_mix() {
    let (one, two) = (writer(&Limits::default()), writer(&Limits::default()));
    let map = |writer: &JobWriter, n: usize| MappedSegment::map(writer.segments(&Have::default())[n].1).unwrap();
    assert!(matches!(JobReader::attach(vec![map(&one, 0), map(&two, 1)], None), Err(AttachError::Foreign { .. })));
    assert!(matches!(JobReader::attach(vec![map(&one, 1)], None), Err(AttachError::NoJob)));
    let mut two = two;
    let page = ReaderPage::map(two.make_reader_page().unwrap().as_fd()).unwrap();
    assert!(matches!(JobReader::attach(vec![map(&one, 0)], Some(page)), Err(AttachError::ForeignPage)));
}
