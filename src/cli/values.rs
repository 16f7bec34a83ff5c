//! Durations, sizes and modes as they are typed.

use std::time::Duration;

/// `10s`, `500ms`, `5m`, `1h`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let millis_per_unit = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return Err("write a duration such as 500ms, 10s, 5m or 1h".into()),
    };
    let number: u64 = number.parse().map_err(|_| "write a duration such as 500ms, 10s, 5m or 1h")?;
    // A century is for ever, and fits whatever a timer counts in.
    let limit = 100 * 365 * 24 * 60 * 60 * 1000;
    let millis = number.checked_mul(millis_per_unit).filter(|&millis| millis <= limit);
    millis.map(Duration::from_millis).ok_or_else(|| "that is longer than a hundred years".into())
}

/// Like [`duration`], but not none at all.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a limit of 0 would end every request; write 1ms or more".into()),
        duration => Ok(duration),
    }
}

/// `64k`, `1m`, `2g`; a bare number is bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err("write a size such as 512, 64k, 1m or 2g".into()),
    };
    let number: u64 = number.parse().map_err(|_| "write a size such as 512, 64k, 1m or 2g")?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is larger than any file".into())
}

/// The least and the most that is handed to the kernel in one call.
const CHUNK_SIZES: std::ops::RangeInclusive<u64> = 4 * 1024..=16 * 1024 * 1024;

/// A size within the bounds of a chunk.
pub(super) fn chunk_size(text: &str) -> Result<usize, String> {
    let size = size(text)?;
    let within = CHUNK_SIZES.contains(&size).then(|| usize::try_from(size).ok()).flatten();
    within.ok_or_else(|| "a chunk has 4k to 16m".into())
}

/// Octal permission bits, as chmod takes them.
pub(super) fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write a mode in octal, such as 0660".into())
}

fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in
            [("10s", 10_000), ("500ms", 500), ("5m", 300_000), ("7", 7000), ("1h", 3_600_000), ("0", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1.5s", "-1", "10 s", "1d", "ten", "99999999999999999999"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("18446744073709551615m").is_err());
        assert!(timeout("0").is_err());
        assert!(timeout("1ms").is_ok());
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("512", 512), ("64k", 65_536), ("1M", 1 << 20), ("2g", 2 << 30), ("0", 0)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "1kb", "-1", "1.5k", "18446744073709551615k"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(chunk_size("4k"), Ok(4096));
        assert!(chunk_size("4095").is_err());
        assert_eq!(chunk_size("16m"), Ok(16 << 20));
        assert!(chunk_size("16777217").is_err());
    }

    #[test]
    fn modes() {
        assert_eq!(mode("0660"), Ok(0o660));
        assert_eq!(mode("600"), Ok(0o600));
        for text in ["", "rw", "0888", "1777", "-1"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
