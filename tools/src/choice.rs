//! Words that somebody may have meant.

/// Longer than any word that there is: nobody looks for one that is near.
const LONGEST: usize = 64;

/// The word of `words` that is nearest to `typed`, unless none is near.
fn nearest<'a>(typed: &str, words: &[&'a str]) -> Option<&'a str> {
    let near = |word: &&'a str| strsim::jaro_winkler(&typed.to_ascii_lowercase(), word);
    let near = words.iter().map(|word| (near(word), *word)).max_by(|a, b| a.0.total_cmp(&b.0));
    near.filter(|(near, _)| *near > 0.7).map(|(_, word)| word)
}

/// The word of `words` that `typed` is, or that alone begins so; case does not count.
///
/// # Errors
/// A line that names what there is.
pub fn choose<'a>(what: &str, typed: &str, words: &[&'a str]) -> Result<&'a str, String> {
    if typed.len() > LONGEST {
        let begin: String = typed.chars().take(LONGEST).collect();
        return Err(format!("{what} \"{}...\" is unknown. There are {}", begin.escape_debug(), words.join(", ")));
    }
    let lower = typed.to_ascii_lowercase();
    if let Some(word) = words.iter().find(|word| **word == lower) {
        return Ok(word);
    }
    let begun: Vec<&str> = words.iter().copied().filter(|word| !lower.is_empty() && word.starts_with(&lower)).collect();
    match begun[..] {
        [word] => Ok(word),
        [] => {
            let meant = nearest(typed, words).map(|word| format!(" Did you mean {word}?")).unwrap_or_default();
            Err(format!("{what} {typed:?} is unknown.{meant} There are {}", words.join(", ")))
        }
        _ => Err(format!("{what} {typed:?} may be {}; say more of it", begun.join(" or "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_word_is_compared_with_none_and_not_told_whole() {
        let error = choose("directive", &"\u{e4}".repeat(1 << 20), &["tag", "core"]).unwrap_err();
        assert!(error.len() < 300 && error.ends_with("There are tag, core"), "{error}");
    }

    #[test]
    fn a_word_may_be_shortened_while_it_is_one() {
        let words = ["tag", "tag-detailed", "timestamp", "core"];
        assert_eq!(choose("directive", "TAG", &words), Ok("tag"));
        assert_eq!(choose("directive", "tag-d", &words), Ok("tag-detailed"));
        assert!(choose("directive", "t", &words).unwrap_err().contains("may be tag or tag-detailed or timestamp"));
        assert!(choose("directive", "croe", &words).unwrap_err().contains("Did you mean core?"));
        assert!(choose("directive", "", &words).unwrap_err().contains("There are tag, "));
    }
}
