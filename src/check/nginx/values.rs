//! Sizes and times in nginx's spelling.

/// `512`, `8k`, `1m`, `2g`, in bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// `60`, `60s`, `500ms`, `1m30s`, `1d 12h`, in milliseconds; a bare number is seconds.
pub(super) fn millis(text: &str) -> Option<u64> {
    let mut rest = text.trim_matches(' ');
    let mut sum = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let unit_len = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let factor = match unit {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60 * 1000,
            "h" => 60 * 60 * 1000,
            "d" => 24 * 60 * 60 * 1000,
            "w" => 7 * 24 * 60 * 60 * 1000,
            "M" => 30 * 24 * 60 * 60 * 1000,
            "y" => 365 * 24 * 60 * 60 * 1000,
            _ => return None,
        };
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = tail.trim_start_matches(' ');
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [("0", 0), ("512", 512), ("8k", 8192), ("64K", 65_536), ("1m", 1 << 20), ("2G", 2 << 30)] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "k", "1kb", "-1", "1.5k", "$size", "18446744073709551615k"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, time) in [
            ("60", 60_000),
            ("60s", 60_000),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("1m 30s", 90_000),
            ("1d", 86_400_000),
            ("1M", 2_592_000_000),
        ] {
            assert_eq!(millis(text), Some(time), "{text}");
        }
        for text in ["", "s", "1x", "-1", "1m-", "$time", "99999999999999999999y"] {
            assert_eq!(millis(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_value_or_none(text in "\\PC{0,30}") {
            let _ = (size(&text), millis(&text));
        }
    }
}
