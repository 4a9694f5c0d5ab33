//! Formats of programs that the kernel hands to an interpreter of somebody's choice (binfmt_misc), such as programs of
//! another processor to an emulator.
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where the kernel shows the formats, each in a file of its own.
const FORMATS: &str = "/proc/sys/fs/binfmt_misc";
/// Bytes at the beginning of a program that the kernel looks at.
const LOOKED_AT: u64 = 256;

/// Returns whether the kernel hands a program to an interpreter for its format.
pub fn takes(program: &Path) -> bool {
    is_taken(Path::new(FORMATS), program)
}

fn is_taken(formats: &Path, program: &Path) -> bool {
    let mut begin = Vec::new();
    if File::open(program).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut begin)).is_err() {
        return false;
    }
    if !fs::read_to_string(formats.join("status")).is_ok_and(|status| status.trim() == "enabled") {
        return false;
    }
    let entries = fs::read_dir(formats).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_to_string(entry.path()).ok()).any(|format| has(&format, program, &begin))
}

/// Returns whether a format, as the kernel shows it, is that of a program that begins so.
fn has(format: &str, program: &Path, begin: &[u8]) -> bool {
    let field = |name: &str| {
        let mut lines = format.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(of, _)| *of == name).map(|(_, value)| value.trim())
    };
    if !format.starts_with("enabled\n") {
        return false;
    }
    if let Some(extension) = field("extension") {
        return program.extension() == Some(OsStr::from_bytes(extension.trim_start_matches('.').as_bytes()));
    }
    let offset = field("offset").map_or(Some(0), |offset| offset.parse::<usize>().ok());
    let (Some(magic), Some(offset)) = (field("magic").and_then(bytes), offset) else { return false };
    let mask = field("mask").and_then(bytes).unwrap_or_else(|| vec![0xff; magic.len()]);
    let there = begin.get(offset..).and_then(|begin| begin.get(..magic.len()));
    there.is_some_and(|there| there.iter().zip(&magic).zip(&mask).all(|((is, magic), mask)| (is ^ magic) & mask == 0))
}

/// Bytes that are written as digits of base 16.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMULATOR: &str = "enabled\ninterpreter /usr/bin/emulator\nflags: OCF\noffset 0\n\
                            magic 7f454c46020101000000\nmask ffffffffffffff00ffff\n";
    const BY_NAME: &str = "enabled\ninterpreter /usr/bin/runner\nflags: \nextension .exe\n";

    #[test]
    fn a_format_is_told_by_its_magic_under_its_mask_or_by_the_name() {
        let (elf, other) = (b"\x7fELF\x02\x01\x01\x42\0\0...".as_slice(), b"\x7fELF\x01\x01\x01\x42\0\0...".as_slice());
        let program = Path::new("program");
        assert!(has(EMULATOR, program, elf));
        assert!(!has(EMULATOR, program, other) && !has(EMULATOR, program, &elf[..9]) && !has(EMULATOR, program, b""));
        assert!(!has(&EMULATOR.replacen("enabled", "disabled", 1), program, elf));
        assert!(has(&EMULATOR.replace("offset 0", "offset 2"), program, &[b"..", elf].concat()));
        assert!(has(BY_NAME, Path::new("folder/program.exe"), b"") && !has(BY_NAME, Path::new("folder/exe"), b""));
        for damaged in ["", "enabled\n", "enabled\nmagic xy\n", "enabled\noffset -1\nmagic 7f\n", "enabled\nmagic 7\n"]
        {
            assert!(!has(damaged, program, b"\x7fELF"), "{damaged:?}");
        }
    }

    #[test]
    fn formats_count_while_all_of_them_are_enabled() {
        let folder = std::env::temp_dir().join(format!("instanton-formats-{}", std::process::id()));
        let (program, formats) = (folder.join("program"), folder.join("formats"));
        fs::create_dir_all(&formats).unwrap();
        fs::write(&program, b"\x7fELF\x02\x01\x01\0\0\0...").unwrap();
        fs::write(formats.join("emulator"), EMULATOR).unwrap();
        assert!(!is_taken(&formats, &program), "no status");
        for (status, is) in [("enabled\n", true), ("disabled\n", false)] {
            fs::write(formats.join("status"), status).unwrap();
            assert_eq!(is_taken(&formats, &program), is);
        }
        assert!(!is_taken(&formats, &folder.join("absent")));
        fs::remove_dir_all(&folder).unwrap();
    }
}
