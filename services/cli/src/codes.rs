//! The pages of error codes: `lacuna help L0007`.

/// The text of all pages, split by headings of level two.
const ERRORS: &str = include_str!("../../../deploy/errors.md");

/// The page of one error code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// `L` and four digits; a code is never reused for another error.
    pub(crate) code: &'static str,
    /// The error in one line.
    pub(crate) title: &'static str,
    /// The meaning, and what to do.
    pub(crate) text: &'static str,
}

/// All pages, in order of code.
pub(crate) fn pages() -> impl Iterator<Item = Page> {
    // The text before the first heading is the introduction.
    ERRORS.split("\n## ").skip(1).filter_map(|part| {
        let (code, part) = part.split_once("\n\n")?;
        let (title, part) = part.split_once("\n\n```text\n")?;
        let (text, _) = part.split_once("\n```")?;
        Some(Page { code, title, text })
    })
}

/// The page of a code, whose letters may be upper or lower case.
pub(crate) fn page(code: &str) -> Option<Page> {
    pages().find(|page| page.code.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn codes_are_unique_sorted_and_well_formed() {
        let pages: Vec<Page> = pages().collect();
        assert_eq!(pages.len(), ERRORS.matches("\n## ").count());
        assert!(pages.windows(2).all(|w| w[0].code < w[1].code));
        for page in &pages {
            assert!(page.code.len() == 5 && page.code.starts_with('L'));
            assert!(!page.title.contains('\n'), "{}", page.code);
            assert!(page.text.lines().all(|l| l.len() <= 88), "{}", page.code);
        }
        assert_eq!(page("l0007").unwrap().code, "L0007");
    }

    #[test]
    fn the_page_of_formats_names_every_format() {
        let text = page("L0018").unwrap().text;
        for format in lacuna_trace::Format::ALL {
            let option = format!("--format {} ", format.name());
            assert!(text.contains(&option), "{format}");
        }
    }

    /// The sources of all services use exactly the codes that have pages.
    #[test]
    fn every_code_used_has_a_page_and_every_page_its_code() {
        let services = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut stack = vec![services.to_path_buf()];
        let mut used = BTreeSet::new();
        while let Some(dir) = stack.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    // Tests may name codes that no service uses any more.
                    if !path.ends_with("tests") {
                        stack.push(path);
                    }
                    continue;
                }
                if path.extension().is_none_or(|e| e != "rs") || path.ends_with("codes.rs") {
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let named = text
                    .match_indices("\"L0")
                    .map(|(at, _)| &text[at + 1..at + 6]);
                used.extend(named.map(str::to_owned));
            }
        }
        let pages: BTreeSet<String> = pages().map(|page| page.code.to_owned()).collect();
        assert_eq!(used, pages);
    }
}
