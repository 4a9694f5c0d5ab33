//! Files of words for a command line: of applications, and of parameters.
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A line that has words, and its place.
type Line = (String, Vec<OsString>);

/// The applications of a file, one a line.
///
/// # Errors
/// A line that names the file, and the line of it.
pub fn applications(file: &OsStr) -> Result<Vec<Line>, String> {
    let name = file.display();
    let found = lines(Path::new(file), &format!("cannot read the applications in {name}"))?;
    if found.is_empty() { Err(format!("--app: there is no application in {name}")) } else { Ok(found) }
}

/// The options that files of parameters make, of which the later ones count.
///
/// A line has options as on the command line (`-mca NAME VALUE`, `-x VAR=VALUE`), or `NAME = VALUE` as Open MPI's own
/// files of parameters. A file that is not here is looked for where Open MPI's users keep theirs.
///
/// # Errors
/// A line that names the file, and the line of it.
pub fn parameters(option: &str, files: &OsStr, between: &[u8]) -> Result<Vec<OsString>, String> {
    let mut all = Vec::new();
    for file in files.as_bytes().split(|byte| between.contains(byte)).filter(|file| !file.is_empty()) {
        let path = found(Path::new(OsStr::from_bytes(file)));
        for (place, words) in lines(&path, &format!("{option}: cannot read {}", path.display()))? {
            all.extend(of_line(&words).map_err(|error| format!("{place}: {error}"))?);
        }
    }
    Ok(all)
}

fn found(file: &Path) -> PathBuf {
    let kept = env::home_dir().map(|home| home.join(".openmpi/amca-param-sets").join(file));
    kept.filter(|kept| !file.exists() && kept.exists()).unwrap_or_else(|| file.to_owned())
}

fn of_line(words: &[OsString]) -> Result<Vec<OsString>, String> {
    if !words[0].as_bytes().starts_with(b"-") {
        let line = words.join(OsStr::new(" "));
        let setting = line.as_bytes().iter().position(|&byte| byte == b'=').map(|at| line.as_bytes().split_at(at));
        let (name, value) = setting
            .map(|(name, value)| (name.trim_ascii(), value[1..].trim_ascii()))
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("{}: it is NAME = VALUE, -mca NAME VALUE or -x VAR=VALUE", line.display()))?;
        return Ok(vec!["--mca".into(), OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec())]);
    }
    let mut all = Vec::new();
    let mut words = words.iter().cloned();
    while let Some(option) = words.next() {
        let (ours, values) = match option.as_bytes() {
            b"-mca" | b"--mca" | b"-gmca" | b"--gmca" => ("--mca", 2),
            b"-x" | b"--x" => ("--set-env", 1),
            _ => return Err(format!("{} is no option for a file of parameters: -mca and -x are", option.display())),
        };
        all.push(ours.into());
        let before = all.len();
        all.extend(words.by_ref().take(values));
        if all.len() < before + values {
            return Err(format!("{}: a value is missing", option.display()));
        }
    }
    Ok(all)
}

/// The words of each line of a file that has some, with its place.
fn lines(file: &Path, failure: &str) -> Result<Vec<Line>, String> {
    let text = fs::read(file).map_err(|error| format!("{failure}: {error}"))?;
    let mut found = Vec::new();
    for (line, number) in text.split(|&byte| byte == b'\n').zip(1..) {
        let place = format!("{}:{number}", file.display());
        let words = unquoted(line).ok_or_else(|| format!("{place}: a quotation is not closed"))?;
        if !words.is_empty() {
            found.push((place, words));
        }
    }
    Ok(found)
}

/// The words of a line, in quotes as for a shell; nothing behind a `#`. None where a quotation does not end.
fn unquoted(line: &[u8]) -> Option<Vec<OsString>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (None | Some(b'"'), b'\\') => word.get_or_insert_default().push(bytes.next()?),
            (Some(_), byte) => word.get_or_insert_default().push(byte),
            (None, b'\'' | b'"') => {
                word.get_or_insert_default();
                quote = Some(byte);
            }
            (None, b'#') if word.is_none() => break,
            (None, byte) if byte.is_ascii_whitespace() => words.extend(word.take()),
            (None, byte) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    quote.is_none().then(|| words.into_iter().map(OsString::from_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_line_are_those_of_a_shell() {
        let read = |line: &str| {
            unquoted(line.as_bytes()).map(|words| words.iter().map(|word| word.to_string_lossy().into()).collect())
        };
        let words = |words: &[&str]| Some(words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        assert_eq!(read(" -np 2  a 'b c'd \"e'\\\"\" \\# # more"), words(&["-np", "2", "a", "b cd", "e'\"", "#"]));
        assert_eq!(read("a#b ''"), words(&["a#b", ""]));
        assert_eq!(read("# all"), words(&[]));
        assert_eq!((read("a 'b"), read("a\\")), (None, None));
    }

    #[test]
    fn parameters_are_options_or_settings() {
        let directory = env::temp_dir().join(format!("instanton-parameters-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            path.into_os_string()
        };
        let options = "# tuned\n-mca pml ob1 --mca btl \"self,vader\"\n-x A=b -x C\n";
        let (options, settings) = (file("options", options), file("settings", "\npml = cm\nbtl_x=a  b # not c\n"));
        let both = [options.clone(), settings].join(OsStr::new(","));
        let read = parameters("--tune", &both, b",").unwrap();
        let read: Vec<_> = read.iter().map(|word| word.to_str().unwrap()).collect();
        let of_options = ["--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--set-env", "A=b", "--set-env", "C"];
        assert_eq!(read, [&of_options[..], &["--mca", "pml", "cm", "--mca", "btl_x", "a b"]].concat());
        for (text, word) in [
            ("a\n-mca b", ":1: a: it is NAME = VALUE"),
            ("\n-mca b", ":2: -mca: a value is missing"),
            ("-n 4", ":1: -n is no option for a file of parameters"),
            ("= b", "NAME = VALUE"),
            ("a = 'b", ":1: a quotation"),
        ] {
            let refused = parameters("--tune", &file("wrong", text), b",").unwrap_err();
            assert!(refused.contains(word) && refused.contains("wrong"), "{refused}");
        }
        fs::remove_dir_all(&directory).unwrap();
        let missing = parameters("-am", OsStr::new("/none/such"), b":,").unwrap_err();
        assert!(missing.starts_with("-am: cannot read /none/such: "), "{missing}");
    }
}
