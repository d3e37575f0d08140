# One question of a table from R, over what `veilsum ask --json` prints. Needs veilsum on the PATH, or its
# path in the option "veilsum.command", and the package jsonlite.
#
#   source("veilsum.R")
#   answer <- veilsum_ask("mean", "kwh", "meters.csv", between = c(0, 40), eps = 1, id = "household")
#   answer$value; answer$interval; answer$promise
#   veilsum_ask("histogram", "kwh", "meters.csv", between = c(0, 40), bins = 8, eps = 1)$answers
#
# Arguments without a name are the words of the command: the question, its columns, the table. A named
# one is an option: `min_count = 10` is --min-count 10, `population = TRUE` is --population. `where` and
# `by` are named lists of public values: where = list(region = c("north", "south")). Bounds of several
# columns are a list of pairs. What is answered is charged to the table's budget; asking the same again is
# free.

veilsum_ask <- function(...) {
  given <- list(...)
  names <- if (is.null(names(given))) rep("", length(given)) else names(given)
  words <- c("ask", unlist(lapply(given[names == ""], as.character)))
  for (k in which(names != "")) words <- c(words, .veilsum_option(names[k], given[[k]]))
  command <- getOption("veilsum.command", "veilsum")
  errors <- tempfile()
  on.exit(unlink(errors))
  # A refusal leaves an exit code, of which system2 warns; its reason is in the JSON.
  printed <- suppressWarnings(
    system2(command, shQuote(c(words, "--json")), stdout = TRUE, stderr = errors)
  )
  if (length(printed) == 0) stop(paste(readLines(errors), collapse = "\n"), call. = FALSE)
  found <- jsonlite::fromJSON(paste(printed, collapse = "\n"), simplifyDataFrame = FALSE)
  if (!is.null(found$error)) stop(found$error, call. = FALSE)
  best <- found$answers[[1]]
  found$value <- best$value
  found$interval <- if (length(best$value) > 1) cbind(low = best$low, high = best$high) else
    c(low = best$low, high = best$high)
  if (length(best$labels) > 0) names(found$value) <- best$labels
  found$promise <- found$promises[[1]]
  found
}

.veilsum_option <- function(name, value) {
  flag <- paste0("--", gsub("_", "-", name))
  if (is.logical(value)) return(if (isTRUE(value)) flag else character(0))
  if (name %in% c("where", "by")) {
    chosen <- vapply(value, function(v) paste(v, collapse = ","), "")
    return(as.vector(rbind(flag, paste0(names(value), "=", chosen))))
  }
  if (is.list(value)) return(unlist(lapply(value, function(v) .veilsum_option(name, v))))
  number <- is.numeric(value)
  text <- if (number) format(value, digits = 17, scientific = FALSE, trim = TRUE) else value
  if (name == "between") return(c(flag, text))
  c(flag, paste(text, collapse = ","))
}
