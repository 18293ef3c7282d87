//! Placeholder until merged.
use super::Report;
/// The page.
pub fn html(report: &Report) -> String {
    super::markdown(report)
}
