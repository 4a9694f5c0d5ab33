//! Program files, as far as the dynamic loader's task shows in them: which loader they ask for, and which libraries by
//! name. Of a file that says something senseless about itself, nothing is taken. Other things than regular files are not
//! opened: ranks name programs, and put libraries where the loader would look.
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use instanton::internal::sys::regular_file;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
/// Most entries that are read of a table.
const MOST: u64 = 4096;

/// A program or a library.
#[derive(Debug, PartialEq, Eq)]
pub struct Elf {
    interpreter: Option<PathBuf>,
    /// Names of the libraries that it asks for itself.
    pub needed: Vec<OsString>,
}

/// A part of the file, and where it lies in memory.
struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

/// An open file, and the widths of its fields.
struct Reader {
    file: File,
    is_wide: bool,
}

impl Elf {
    /// The dynamic loader that it asks for; none where it asks for something else, or nothing.
    pub fn loader(&self) -> Option<&Path> {
        let path = self.interpreter.as_deref()?;
        let name = path.file_name()?.as_bytes();
        // A program that is no dynamic loader would take `--list` for one.
        let is_loader = [&b"ld-linux"[..], b"ld-musl", b"ld64.so", b"ld.so"].iter().any(|of| name.starts_with(of));
        is_loader.then_some(path)
    }
}

/// Kind of machine that a file is for: the width and the order of its words, and the processor.
pub type Kind = (u8, u8, [u8; 2]);

/// The kind of machine that a file is for which begins so; none where it is no program and no library.
pub fn kind(begin: &[u8]) -> Option<Kind> {
    match begin.get(..20)? {
        [0x7f, b'E', b'L', b'F', width, order, .., low, high] => Some((*width, *order, [*low, *high])),
        _ => None,
    }
}

/// The kind of machine that a file is for; none where it cannot be read, or is no program and no library.
pub fn kind_of(path: &Path) -> Option<Kind> {
    let mut begin = [0; 20];
    regular_file::open(path).and_then(|file| file.read_exact_at(&mut begin, 0)).ok()?;
    kind(&begin)
}

/// The kind of machine that this command is for.
pub fn own_kind() -> Option<Kind> {
    kind_of(Path::new("/proc/self/exe"))
}

/// Reads a file; none where it is no program of this machine's byte order.
///
/// # Errors
/// The kernel's; those of a file that ends too early.
pub fn read(path: &Path) -> io::Result<Option<Elf>> {
    let file = regular_file::open(path)?;
    let mut header = [0; 64];
    if let Err(error) = file.read_exact_at(&mut header, 0) {
        return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
    }
    let own_order = if cfg!(target_endian = "little") { 1 } else { 2 };
    let is_wide = match header[..6] {
        [0x7f, b'E', b'L', b'F', class @ (1 | 2), order] if order == own_order => class == 2,
        _ => return Ok(None),
    };
    let reader = Reader { file, is_wide };
    let segments = reader.segments(&header)?;
    let of = |kind: u64| segments.iter().find(|segment| segment.kind == kind);
    let interpreter = of(PT_INTERP).map(|at| reader.text(at.offset)).transpose()?.map(PathBuf::from);
    let needed = of(PT_DYNAMIC).map(|at| reader.needed(at, &segments)).transpose()?.unwrap_or_default();
    Ok(Some(Elf { interpreter, needed }))
}

impl Reader {
    /// A field of some bytes: where it lies in a wide file, and in another.
    fn word(&self, bytes: &[u8], at: [usize; 2]) -> u64 {
        if self.is_wide { number(bytes, at[0], 8) } else { number(bytes, at[1], 4) }
    }

    fn segments(&self, header: &[u8; 64]) -> io::Result<Vec<Segment>> {
        let short = |at: [usize; 2]| number(header, if self.is_wide { at[0] } else { at[1] }, 2);
        let (table, size, count) = (self.word(header, [32, 28]), short([54, 42]), short([56, 44]));
        let segment = |at: u64| {
            let mut entry = [0; 56];
            let entry = &mut entry[..if self.is_wide { 56 } else { 32 }];
            self.file.read_exact_at(entry, table.saturating_add(at * size))?;
            Ok(Segment {
                kind: number(entry, 0, 4),
                offset: self.word(entry, [8, 4]),
                address: self.word(entry, [16, 8]),
                size: self.word(entry, [32, 16]),
            })
        };
        (0..count.min(MOST)).map(segment).collect()
    }

    /// The names in the table of what the loader has to do.
    fn needed(&self, table: &Segment, segments: &[Segment]) -> io::Result<Vec<OsString>> {
        let width = if self.is_wide { 16 } else { 8 };
        let mut bytes = vec![0; (table.size.min(MOST * width)) as usize];
        self.file.read_exact_at(&mut bytes, table.offset)?;
        let pairs = bytes.chunks_exact(width as usize);
        let pairs =
            pairs.map(|pair| (self.word(pair, [0, 0]), self.word(pair, [8, 4]))).take_while(|(tag, _)| *tag != 0);
        let pairs: Vec<_> = pairs.collect();
        let names = pairs.iter().find(|(tag, _)| *tag == DT_STRTAB).and_then(|(_, address)| {
            let loaded = segments.iter().filter(|segment| segment.kind == PT_LOAD);
            let within =
                loaded.filter_map(|at| Some((address.checked_sub(at.address).filter(|by| *by < at.size)?, at)));
            within.map(|(by, at)| at.offset.saturating_add(by)).next()
        });
        let Some(names) = names else { return Ok(Vec::new()) };
        let needed = pairs.iter().filter(|(tag, _)| *tag == DT_NEEDED);
        needed.map(|(_, at)| self.text(names.saturating_add(*at))).collect()
    }

    /// The text that begins there.
    fn text(&self, at: u64) -> io::Result<OsString> {
        let mut bytes = vec![0; 4096];
        let read = self.file.read_at(&mut bytes, at)?;
        let text = bytes[..read].split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(OsString::from_vec(text.to_vec()))
    }
}

/// A number of this machine's byte order.
fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let digits = bytes[at..at + width].iter();
    let join = |number, digit: &u8| number << 8 | u64::from(*digit);
    if cfg!(target_endian = "little") { digits.rev().fold(0, join) } else { digits.fold(0, join) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_names_its_loader_and_libraries_and_other_files_none() {
        let own = read(&std::env::current_exe().unwrap()).unwrap().unwrap();
        if own.loader().is_some() {
            assert!(own.needed.iter().any(|name| name.as_bytes().starts_with(b"libc.")), "{own:?}");
        }
        assert_eq!(read(Path::new("/proc/self/maps")).unwrap(), None);
        assert!(read(Path::new("/dev/null")).is_err());
        assert!(read(Path::new("/none")).is_err());
    }

    #[test]
    fn a_fifo_is_not_waited_for() {
        let fifo = std::env::temp_dir().join(format!("instanton-elf-fifo-{}", std::process::id()));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let seen = (read(&fifo).is_err(), kind_of(&fifo));
        std::fs::remove_file(&fifo).unwrap();
        assert_eq!(seen, (true, None));
    }

    #[test]
    fn damaged_files_give_errors_or_nothing_that_is_long() {
        let whole = std::fs::read("/bin/sh").unwrap();
        let file = std::env::temp_dir().join(format!("instanton-elf-{}", std::process::id()));
        for at in (0..1024).step_by(3) {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole[..whole.len().min(4096)].to_vec();
                damaged[at] = value;
                std::fs::write(&file, &damaged).unwrap();
                if let Ok(Some(elf)) = read(&file) {
                    assert!(elf.needed.len() <= MOST as usize);
                }
            }
        }
        std::fs::remove_file(&file).unwrap();
    }
}
