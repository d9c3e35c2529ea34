//! What is written for people holds together: every code is in the runbook, every link leads somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR"));
    shared.parent().expect("the crate lies in the repository").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("failed to read {}: {error}", path.display()))
}

/// The variants of `Code` in their order, out of its source: no list that could be forgotten.
fn codes() -> Vec<String> {
    let source = include_str!("../src/code.rs");
    let body = source.split_once("pub enum Code {").expect("the enum").1.split_once("\n}").expect("its end").0;
    let name = |line: &str| line.trim().strip_suffix(',').map(str::to_owned);
    body.lines().filter_map(name).filter(|name| name.chars().all(char::is_alphanumeric)).collect()
}

/// Sections by heading of the third level.
fn sections(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("\n### ").skip(1);
    parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).map(|(name, body)| (name.trim(), body)).collect()
}

/// The text without what stands in fenced code.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The text without what stands in backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// The anchors of a page, as GitHub makes them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut times = BTreeMap::<String, u32>::new();
    let prose = prose(text);
    let headings = prose.lines().filter_map(|line| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.strip_prefix(' ')).flatten()
    });
    let mut found = BTreeSet::new();
    for heading in headings {
        let kept = heading.trim().to_lowercase();
        let slug: String = kept
            .chars()
            .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        let before = times.entry(slug.clone()).or_default();
        found.insert(if *before == 0 { slug } else { format!("{slug}-{before}") });
        *before += 1;
    }
    found
}

/// Where the links and images of a page lead, `](target)` and `src="target"`.
fn targets(text: &str) -> Vec<String> {
    let prose = without_code(&prose(text));
    let of = |open: &str, close: char| -> Vec<String> {
        prose
            .split(open)
            .skip(1)
            .filter_map(|rest| rest.split_once(close))
            .map(|(target, _)| target.to_owned())
            .collect()
    };
    [of("](", ')'), of("src=\"", '"')].concat()
}

/// All pages: the Markdown files beside README.md and below docs, krew and manifests.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
            let within = folder != root() || matches!(&*name, "docs" | "krew" | "manifests" | "plugin" | "agent");
            if path.is_dir() {
                if within && !name.starts_with('.') && name != "target" {
                    folders.push(path);
                }
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages
}

#[test]
fn the_runbook_has_every_code_and_no_other() {
    let codes = codes();
    assert!(codes.len() > 60, "the codes are not found in their source: {codes:?}");
    let runbook = read(&root().join("docs/runbook.md"));
    let wanted: BTreeSet<&str> = codes.iter().map(String::as_str).collect();
    let written: Vec<&str> = sections(&runbook).into_iter().map(|(name, _)| name).collect();
    let found: BTreeSet<&str> = written.iter().copied().collect();
    assert_eq!(wanted.difference(&found).collect::<Vec<_>>(), Vec::<&&str>::new(), "codes without a heading");
    assert_eq!(found.difference(&wanted).collect::<Vec<_>>(), Vec::<&&str>::new(), "headings without a code");
    assert_eq!(written.len(), found.len(), "a heading is there twice");
}

#[test]
fn the_runbook_says_of_each_code_what_it_means_how_to_see_it_and_what_to_do() {
    let runbook = read(&root().join("docs/runbook.md"));
    for (code, body) in sections(&runbook) {
        for part in ["- **Means:** ", "- **See:** ", "- **Do:** "] {
            let lines = body.lines().filter(|line| line.starts_with(part) && line.len() > part.len() + 3);
            assert_eq!(lines.count(), 1, "{code}: {part}");
        }
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let pages = pages();
    assert!(pages.len() > 20, "the pages are not found: {pages:?}");
    let (mut broken, mut followed) = (Vec::new(), 0);
    for page in &pages {
        let text = read(page);
        for target in targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => page.clone(),
                file => page.parent().expect("a folder").join(file),
            };
            let known =
                || path.is_dir() || !path.to_string_lossy().ends_with(".md") || anchors(&read(&path)).contains(anchor);
            if !path.exists() || !anchor.is_empty() && !known() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(followed > 30, "links are not found: {followed}");
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn links_and_headings_are_read_as_github_reads_them() {
    let text =
        "# A `b`: c's\n\n[x](y.md#z) and `[no](code)`\n```\n[no](fenced)\n# no\n```\n## A\n## A\n<img src=\"p.svg\">\n";
    assert_eq!(targets(text), ["y.md#z", "p.svg"]);
    assert_eq!(anchors(text), ["a-b-cs", "a", "a-1"].map(str::to_owned).into());
}
