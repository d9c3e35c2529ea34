//! What apimachinery answers, from a table made with it, and what must hold for every quantity.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn every_row_of_upstreams_answers_is_ours() {
    let rows = include_str!("vectors.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut checked = 0;
    for row in rows {
        let [input, canonical, value, milli] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a row of four columns: {row:?}");
        };
        let parsed = input.parse::<Quantity>();
        if canonical == "ERR" {
            assert!(parsed.is_err(), "{input:?} is no quantity");
        } else {
            let quantity = parsed.unwrap();
            assert_eq!(quantity.to_string(), canonical, "{input:?}");
            assert_eq!(quantity.value().to_string(), value, "{input:?}");
            assert_eq!(quantity.milli().map_or("-".to_owned(), |milli| milli.to_string()), milli, "{input:?}");
        }
        checked += 1;
    }
    assert_eq!(checked, 33);
}

#[test]
fn what_is_read_the_short_way_is_what_the_long_way_reads() {
    let digits = ["0", "007", "1", "250", "999999", "123456789", "999999999999", "999999999999999"];
    for text in digits.iter().flat_map(|digits| ["", "m", "Ki", "Mi", "Gi"].map(|suffix| format!("{digits}{suffix}"))) {
        let Some(short) = Quantity::usual(&text) else { continue };
        // A sign leads past the short way.
        let long = parse(&format!("+{text}"));
        assert_eq!((short.nano, short.format), (long.nano, long.format), "{text}");
    }
    assert!(["1Gi", "999999Gi", "250m", "16"].iter().all(|text| Quantity::usual(text).is_some()));
    assert!(
        ["", "m", "-1", "1.5", "1k", "9999999Gi", "1000000000000000"]
            .iter()
            .all(|text| Quantity::usual(text).is_none())
    );
}

#[test]
fn amounts_beyond_64_bits_are_a_clear_error() {
    for text in ["1e100", "1e2147483647", "99999E", "100000P", "9223372036854775808"] {
        let error = text.parse::<Quantity>().unwrap_err();
        assert!(error.to_string().contains("larger than 9223372036854775807"), "{text}: {error}");
    }
}

#[test]
fn errors_show_the_beginning_of_what_was_read_and_never_more() {
    let long = "x".repeat(100_000);
    assert!(long.parse::<Quantity>().unwrap_err().to_string().len() < 300);
}

#[test]
fn hostile_texts_are_errors_and_not_panics() {
    let digits = "9".repeat(10_000);
    for text in ["-", "+", ".", "-.", "e", "1e", "1e+", "1e--1", "1.2.3", "１", "1 ", " 1", "1Ki2", "--1", "\0"] {
        let _ = text.parse::<Quantity>();
    }
    assert!(digits.parse::<Quantity>().is_err());
    assert_eq!(parse(&format!("{digits}Ki")).value(), i64::MAX);
    assert_eq!(parse(&format!("0.{digits}")).value(), 1);
    assert_eq!(parse("1e-2147483648").value(), 1);
}

#[test]
fn a_unit_without_a_number_is_zero_where_upstream_says_so() {
    for text in ["m", "Ki", "Ti", ".", "-", "e-9", "E"] {
        assert_eq!(parse(text), Quantity::ZERO, "{text}");
    }
    for text in ["Pi", "Ei", "e-10"] {
        assert!(text.parse::<Quantity>().is_err(), "{text}");
    }
}

#[test]
fn quantities_compare_by_value_and_not_by_spelling() {
    assert_eq!(parse("1"), parse("1000m"));
    assert_eq!(parse("1Ki"), parse("1024"));
    assert!(parse("1.5") > parse("1499m"));
    assert!(parse("-1") < parse("0"));
}

#[test]
fn sums_are_exact_and_keep_the_left_sides_spelling() {
    assert_eq!((parse("100m") + parse("0.9")).to_string(), "1");
    assert_eq!((parse("1Gi") + parse("512Mi")).to_string(), "1536Mi");
    assert_eq!((Quantity::ZERO + parse("1Gi")).to_string(), "1Gi");
    assert_eq!((parse("100u") + parse("100u")).milli(), Some(1));
}

#[test]
fn sums_are_capped_instead_of_wrapping() {
    assert_eq!((parse("8Ei") + parse("8Ei")).value(), i64::MAX);
}

#[test]
fn json_numbers_are_read_as_yaml_files_have_them() {
    assert_eq!(serde_json::from_str::<Quantity>("2").unwrap(), parse("2"));
    assert_eq!(serde_json::from_str::<Quantity>("0.5").unwrap(), parse("500m"));
    assert_eq!(serde_json::to_string(&parse("2.5Gi")).unwrap(), "\"2560Mi\"");
    assert!(serde_json::from_str::<Quantity>("true").is_err());
}

proptest! {
    #[test]
    fn the_canonical_form_is_read_as_the_same_quantity_and_written_the_same(
        text in r"[+-]?[0-9]{1,9}(\.[0-9]{0,6})?(|n|u|m|k|M|G|Ki|Mi|Gi|e[0-6]|E-[0-6])",
    ) {
        let quantity = parse(&text);
        let canonical = quantity.to_string();
        prop_assert_eq!(parse(&canonical), quantity);
        prop_assert_eq!(parse(&canonical).to_string(), canonical);
    }

    #[test]
    fn reading_never_panics(text in r"[-+.0-9eEinumkKMGTPx ]{0,40}") {
        let _ = text.parse::<Quantity>();
    }

    #[test]
    fn sums_do_not_depend_on_the_order(one in 0..i64::MAX / 4000, other in 0..i64::MAX / 4000) {
        let [one, other] = [Quantity::from_milli(one), Quantity::from_milli(other)];
        prop_assert_eq!(one + other, other + one);
        prop_assert!(one + other >= one);
    }

    #[test]
    fn whole_units_are_rounded_away_from_zero(milli in any::<i32>()) {
        let quantity = Quantity::from_milli(i64::from(milli));
        let exact = f64::from(milli) / 1000.0;
        let away = if exact < 0.0 { exact.floor() } else { exact.ceil() };
        prop_assert!((quantity.value() as f64 - away).abs() < 0.5);
    }
}
